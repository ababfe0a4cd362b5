// SPDX-License-Identifier: GPL-3.0-or-later
// OpenAPI v0.0.38: slurmrestd of Slurm 22.05 (and 23.02, 23.11). Its habits: plain numbers, lower-case node
// states, an environment object, HTTP 200 for refusals and errors[] for successes.
#pragma once

#include "slurm/api.h"

namespace spider::slurm {

class ApiV38 final : public Api {
  public:
    [[nodiscard]] std::string_view version() const override { return "v0.0.38"; }

    [[nodiscard]] Call ping() const override;
    [[nodiscard]] Call nodes() const override;
    [[nodiscard]] Call job(std::int64_t id) const override;
    [[nodiscard]] Call jobs(std::int64_t changed_since) const override;
    [[nodiscard]] Call submit(const Submission &submission) const override;
    [[nodiscard]] Call update(std::int64_t id, const Update &what) const override;
    [[nodiscard]] Call cancel(std::int64_t id) const override;

    [[nodiscard]] Result<bool> read_ping(const Reply &reply) const override;
    [[nodiscard]] Result<std::vector<NodeView>> read_nodes(const Reply &reply) const override;
    [[nodiscard]] Result<JobView> read_job(const Reply &reply) const override;
    [[nodiscard]] Result<std::optional<std::vector<JobView>>> read_jobs(const Reply &reply) const override;
    [[nodiscard]] Result<Submitted> read_submit(const Reply &reply) const override;
    [[nodiscard]] Result<void> read_update(const Reply &reply) const override;
    [[nodiscard]] Result<Cancelled> read_cancel(const Reply &reply) const override;
};

} // namespace spider::slurm
