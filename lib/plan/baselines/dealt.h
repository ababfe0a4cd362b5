// SPDX-License-Identifier: GPL-3.0-or-later
// What baselines share: which shapes they try, and how slots become a web. Pure.
#pragma once

#include "plan/compare.h"
#include "plan/web.h"

#include <functional>
#include <span>
#include <vector>

namespace spider::plan {

// P x D slots for a shape: the site of member d of stage s at [s * D + d]. Empty: it finds none.
using Placing = std::function<std::vector<int>(const Problem &, const Shape &, std::int64_t &evaluations)>;

// The job as a baseline runs it.
JobSpec with_published_depth(JobSpec spec);

// Tries the shapes that use the most slots, fewer only where none of them fits.
Finds place_all(const Problem &problem, const Placing &placing);

// A slot of each site for each tensor-parallel group that it has room for, in the order of the job's sites.
std::vector<int> all_slots(const Problem &problem, int tp);

} // namespace spider::plan
