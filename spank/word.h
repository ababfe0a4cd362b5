// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker tells a batch step in the comment of its job: what one look at the job says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spider::spank {

enum class Look {
    wait,     // no word yet
    go,       // `detail` is the word
    back,     // the GPUs of this run are to be given back
    again,    // the word is for another run of this job: its site has started it anew
    old,      // `detail` is the attempt that has taken this one's place
    stranger, // the comment is not of this federated job
    ended,    // `detail` is the job's state: it will not run
};

struct Seen {
    Look look = Look::wait;
    std::string detail;
    bool operator==(const Seen &) const = default;
};

// What the batch step knows of itself.
struct Self {
    std::string job; // the federated one
    int attempt = 1;
    int run = 0; // Slurm's restart count
};

// Where Slurm tells a job its restart count, from the second run on.
inline constexpr const char *restart_variable = "SLURM_RESTART_COUNT";

// `line` is what squeue -o '%T|%k' prints of the job.
Seen judge(std::string_view line, const Self &self);

// Where a command of Slurm may be, first the most likely: `bindir`, beside the daemons (`exe` is slurmstepd),
// the usual places.
std::vector<std::string> command_paths(const std::string &name, const std::string &bindir,
                                       const std::string &exe);

} // namespace spider::spank
