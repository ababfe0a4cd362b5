// SPDX-License-Identifier: GPL-3.0-or-later
// A job's own look at its links, before training starts: what the plan counts on, and what is much worse. It
// travels to the parts as text, and what they saw comes back as text. Plain values, pure functions.
#pragma once

#include "model/plan.h"
#include "probe/sample.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::probe {

struct Expected {
    std::string from, to; // sites
    double gbps = 0;
    double rtt_ms = 0;
    bool operator==(const Expected &) const = default;
};

struct LinkCheck {
    bool replan = false; // else only warn
    double factor = 2;   // worse by so much: told
    std::string key;     // of the parts' agents, for these seconds
    std::vector<Expected> links;
    bool operator==(const LinkCheck &) const = default;
};

// On those links that the plan sends on. No links: nothing to check.
LinkCheck check_of(const Plan &plan, bool replan, double factor, std::string key);

std::string to_text(const LinkCheck &check); // no blanks
Result<LinkCheck> parse_link_check(std::string_view text);

// "the link s1 -> s2 carries 0.01 Gbit/s, and the plan counts on 0.1"; empty: it is as good as that.
std::string worse(const Expected &expected, const Sample &seen, double factor);

// Of the comment of a part: "s1>s2@0.01@25.3,…", and back as what a job saw `at` that time. Errc::invalid.
std::string seen_text(const std::vector<Sample> &samples);
Result<std::vector<Sample>> parse_seen(std::string_view text, Seconds at);

} // namespace spider::probe
