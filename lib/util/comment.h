// SPDX-License-Identifier: GPL-3.0-or-later
// The comment of a part: "<user's own> spiderflow=<job>/<attempt>[ go=<address>/<port> run=<N>][ back=<N>]
// [ seen=<links>]".
// It finds the part again (broker, helper) and tells its batch step (plugin) to begin or to give its GPUs
// back. N is Slurm's restart count of the run that is meant: an older or a later run of the job does not
// obey.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spider::util {

struct Comment {
    std::string user; // the user's own text, kept as it is
    std::string job;  // federated job id, "s1-17"
    int attempt = 0;
    int run = 0;             // for which the word is meant; 0 without a word
    std::optional<int> back; // the run that is to give its GPUs back
    std::string word;        // "<address>/<port>[/<site>@<address>,…]" once the broker has given it
    std::string seen;        // by the part: links that are much worse than planned
    bool operator==(const Comment &) const = default;
};

std::string to_text(const Comment &comment);
std::optional<Comment> parse_comment(std::string_view text); // nothing: not a part of a federated job

} // namespace spider::util
