// SPDX-License-Identifier: GPL-3.0-or-later
// One OpenAPI version of slurmrestd: builds requests and reads replies, does no I/O. Stateless, any thread.
// A new version is one class (api_vNN.h) and one line in the table of api.cc.
#pragma once

#include "slurm/http.h"
#include "slurm/views.h"
#include "util/result.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spider::slurm {

struct Call {
    std::string method = "GET";
    std::string path; // "/slurm/v0.0.38/nodes"
    std::string body; // JSON
};

// What is to change of a job; the rest stays. A requeued job must not be released at once: within a second
// the node where it ran refuses its next run ("Job credential revoked"), and that fails the job.
struct Update {
    std::optional<std::string> comment;
    std::optional<bool> hold;
    bool begin_now = false; // after a requeue Slurm would wait two minutes
};

class Api {
  public:
    virtual ~Api() = default;
    [[nodiscard]] virtual std::string_view version() const = 0; // "v0.0.38"

    [[nodiscard]] virtual Call ping() const = 0;
    [[nodiscard]] virtual Call nodes() const = 0;
    [[nodiscard]] virtual Call job(std::int64_t id) const = 0;
    [[nodiscard]] virtual Call jobs(std::int64_t changed_since = 0) const = 0; // epoch seconds; 0: all jobs
    [[nodiscard]] virtual Call submit(const Submission &submission) const = 0;
    [[nodiscard]] virtual Call update(std::int64_t id, const Update &what) const = 0; // all or nothing
    [[nodiscard]] virtual Call cancel(std::int64_t id) const = 0; // send it as the job's owner

    // Readers. Errc::refused: the site said no, in its own words; denied: the token or the user was not
    // taken; not_found: no such job; unreachable: slurmrestd answers but its slurmctld does not, or (22.05
    // does not tell them apart) the token is bad; protocol: not understood, or this version is not served
    // there. After unreachable or protocol a submission may exist all the same: look for its comment.

    // False when slurmctld does not answer.
    [[nodiscard]] virtual Result<bool> read_ping(const Reply &reply) const = 0;
    [[nodiscard]] virtual Result<std::vector<NodeView>> read_nodes(const Reply &reply) const = 0;
    [[nodiscard]] virtual Result<JobView> read_job(const Reply &reply) const = 0;
    // Nothing: no job has changed since `changed_since` - which is not "there are no jobs".
    [[nodiscard]] virtual Result<std::optional<std::vector<JobView>>> read_jobs(const Reply &reply) const = 0;
    [[nodiscard]] virtual Result<Submitted> read_submit(const Reply &reply) const = 0;
    [[nodiscard]] virtual Result<void> read_update(const Reply &reply) const = 0;
    [[nodiscard]] virtual Result<Cancelled> read_cancel(const Reply &reply) const = 0;
};

std::vector<std::string_view> known_versions();          // newest first
std::unique_ptr<Api> make_api(std::string_view version); // null: not known

// Where a site's slurmrestd is and as whom to ask.
struct Endpoint {
    std::string site;  // names the lane
    std::string url;   // "http://10.77.1.1:6820", "https://…", "unix:/run/slurmrestd.sock"
    std::string user;  // X-SLURM-USER-NAME: the user on whose behalf it is asked
    std::string token; // X-SLURM-USER-TOKEN
};
Request to_request(const Endpoint &endpoint, const Call &call, Seconds timeout);

} // namespace spider::slurm
