// SPDX-License-Identifier: GPL-3.0-or-later
// What a test between two agents is to be. A plain value.
#pragma once

#include "model/site.h"

#include <string>

namespace spider::probe {

struct Order {
    std::string from, to;   // sites: who measures, and towards whom
    std::string address;    // of the agent at `to`: "host:port", "[v6]:port"
    int streams = 4;        // of each direction
    Seconds seconds = 3;    // of each of the three phases; the first second is left out
    Bytes most_bytes = 4e9; // of each direction and phase: then the phase ends early
    double pace_gbps = 0;   // all streams of a direction together; 0 = as fast as it goes
    bool operator==(const Order &) const = default;
};

} // namespace spider::probe
