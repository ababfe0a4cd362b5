// SPDX-License-Identifier: GPL-3.0-or-later
// The broker's word, which comes in the comment of the job: what one look at the job says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spider::spank {

enum class Look {
    wait,     // no word yet
    go,       // `detail` is the word
    stranger, // the comment is not of this federated job
    ended,    // `detail` is the job's state: it will not run
};

struct Seen {
    Look look = Look::wait;
    std::string detail;
    bool operator==(const Seen &) const = default;
};

// `line` is what squeue -o '%T|%k' prints of the job.
Seen judge(std::string_view line, std::string_view job, int attempt);

// Where squeue may be, first the most likely: `bindir`, beside the daemons (`exe` is slurmstepd), the usual
// places.
std::vector<std::string> squeue_paths(const std::string &bindir, const std::string &exe);

} // namespace spider::spank
