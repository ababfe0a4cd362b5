// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow hook check`: the first node of each part of a job measures the links that the plan counts on,
// with the others, before training starts.
#pragma once

#include "probe/link_check.h"

#include <map>
#include <string>
#include <vector>

namespace spider::cli {

struct CheckPlace {
    std::string site;                             // this part's
    int port = 0;                                 // of every part's agent: MASTER_PORT
    std::map<std::string, std::string> addresses; // site -> of its part's first node
};

// "10.77.1.1/29501/s1@10.77.1.1,s2@10.78.1.1" of the broker. Errc::invalid.
Result<CheckPlace> check_place(const std::string &site, std::string_view word);

struct Checked {
    std::vector<probe::Sample> seen;  // both directions of the pairs that this part measured
    std::vector<std::string> worse;   // one sentence each
    std::vector<std::string> trouble; // pairs that could not be measured, and why
};

// Takes seconds, never more than longest_check(). Several parts do this at once; each pair is measured by the
// part whose site comes first in it.
Checked check_links(const CheckPlace &place, const probe::LinkCheck &check);
Seconds longest_check(const probe::LinkCheck &check);

} // namespace spider::cli
