// SPDX-License-Identifier: GPL-3.0-or-later
// For sentences about jobs that do not fit: the plan with the fewest GPUs, and how near the nearest miss
// comes.
#pragma once

#include "plan/spinsearch.h"

#include <string>
#include <vector>

namespace spider::plan {

// Shapes by GPUs, each on one site or woven from a few hubs, until one fits.
std::optional<Found> smallest(const Problem &problem);

// What the largest stage on one GPU type would need at the least, where it has less.
struct Miss {
    std::string gpu, site;
    int stage = 0;
    Bytes needed = 0, has = 0;
    Shape shape;
};
std::vector<Miss> misses(const Problem &problem); // the nearest of each GPU type

} // namespace spider::plan
