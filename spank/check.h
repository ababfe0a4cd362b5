// SPDX-License-Identifier: GPL-3.0-or-later
// The look at the job's links before training starts, made by the helper `spiderflow hook check` in the batch
// step of each part.
#pragma once

#include "spank/settings.h"
#include "util/result.h"

#include <functional>
#include <string>
#include <vector>

namespace spider::spank {

struct CheckedLinks {
    std::vector<std::string> say; // for the user
    std::string seen;             // what the broker is to know of links that are much worse; may be empty
    bool stop = false;            // this plan is not worth starting
};

// Never fails the job: a helper that is missing, hangs or fails is a line of `say`.
CheckedLinks check_links(const Settings &settings, const std::string &site, const std::string &word,
                         const std::string &check);

// The same comment with `seen` in it; empty when it is no comment of ours.
std::string with_seen(const std::string &comment, const std::string &seen);

} // namespace spider::spank
