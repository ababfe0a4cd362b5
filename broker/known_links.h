// SPDX-License-Identifier: GPL-3.0-or-later
// What is known of the network between sites when a plan is made. Plain values.
#pragma once

#include "util/clock.h"

#include <map>
#include <string>
#include <utility>

namespace spider::broker {

using util::Seconds;

// One direction, as the next plan takes it.
struct NamedLink {
    std::string from, to;
    double gbps = 0;
    double usual_gbps = 0; // 0 = not known
    double rtt_ms = 0;
    int streams = 0;
    std::string source; // "pinned", "probe", …
    Seconds measured_at = 0;
    bool operator==(const NamedLink &) const = default;
};

// By directed pair of sites: Gbit/s that running jobs use.
using Reserved = std::map<std::pair<std::string, std::string>, double>;

} // namespace spider::broker
