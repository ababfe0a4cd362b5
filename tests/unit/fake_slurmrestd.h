// SPDX-License-Identifier: GPL-3.0-or-later
// A fake slurmrestd that lists jobs: each is the record of a real site (22.05.8) with what it is about
// changed. It answers nothing else.
#pragma once

#include "unit/http_server.h"
#include "unit/slurm_replies.h"

#include <string>
#include <vector>

namespace spider::test {

inline model::Json job_record(std::int64_t id, const std::string &state, const std::string &comment,
                              const std::string &user = "alice") {
    const bool waits = state == "PENDING";
    auto reply = model::parse_json(recorded(waits ? "38-job-pending-held.json" : "38-job-running.json").body);
    auto job = reply->at("jobs").at(0);
    job["job_id"] = id;
    job["job_state"] = state;
    job["comment"] = comment;
    job["user_name"] = user;
    return job;
}

class FakeSlurmrestd {
  public:
    std::vector<model::Json> jobs; // before the first request
    [[nodiscard]] std::string url() const { return "http://" + server_.where(); }
    [[nodiscard]] std::vector<std::string> requests() const { return server_.requests(); }

  private:
    std::string reply(const std::string &request) const {
        if (!request.starts_with("GET /slurm/v0.0.38/jobs ")) return answer("no", "404 Not Found");
        auto body = model::parse_json(recorded("38-jobs.json").body);
        (*body)["jobs"] = jobs;
        return answer(model::print_json(*body));
    }
    Server server_{[this](const std::string &request) { return reply(request); }};
};

} // namespace spider::test
