// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/environment.h"

#include <algorithm>
#include <cstdio>

namespace spider::slurm {
std::vector<std::pair<std::string, std::string>> job_environment(const Submission &submission) {
    auto environment = submission.environment;
    const auto add = [&](const char *name, const std::string &value) {
        const auto same = [&](const auto &entry) { return entry.first == name; };
        if (std::none_of(environment.begin(), environment.end(), same)) environment.emplace_back(name, value);
    };
    if (!submission.directory.empty()) add("SLURM_SUBMIT_DIR", submission.directory);
    add("SLURM_NTASKS_PER_NODE", std::to_string(submission.tasks_per_node));
    if (submission.cpus_per_task) add("SLURM_CPUS_PER_TASK", std::to_string(*submission.cpus_per_task));
    if (submission.umask) { // slurmstepd takes it from here, the field "umask" of 22.05 does nothing
        char octal[8];
        std::snprintf(octal, sizeof octal, "0%03o", static_cast<unsigned>(*submission.umask) & 0777U);
        add("SLURM_UMASK", octal);
    }
    return environment;
}

} // namespace spider::slurm
