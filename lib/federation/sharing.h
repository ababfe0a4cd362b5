// SPDX-License-Identifier: GPL-3.0-or-later
// Max-min fair shares: no flow can get more without a flow that has no more than it getting less. Pure, any
// thread.
#pragma once

#include "model/site.h"

#include <limits>
#include <span>
#include <vector>

namespace spider::federation {

class Federation;

struct Flow {
    std::span<const int> resources;                         // indexes into the capacities
    double limit = std::numeric_limits<double>::infinity(); // of each of the flows by itself
    int count = 1;                                          // so many alike
};

// What each of flow.count flows gets, for every flow, in the unit of the capacities. Nothing limits a flow
// that crosses nothing and has no limit: infinity. O(n log n) in the number of crossings.
std::vector<double> max_min(std::span<const double> capacities, std::span<const Flow> flows);

struct Traffic {
    SiteId from, to;
    double limit = std::numeric_limits<double>::infinity(); // bytes/s
    int count = 1;
};

// The same between sites: bytes/s of each flow. 0 where there is no way; infinity inside a site.
std::vector<double> share(const Federation &federation, std::span<const Traffic> traffic);

} // namespace spider::federation
