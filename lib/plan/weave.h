// SPDX-License-Identifier: GPL-3.0-or-later
// First webs: cells laid one by one from a hub, each where it costs least beside what is there already.
#pragma once

#include "plan/problem.h"
#include "plan/web.h"

#include <vector>

namespace spider::plan {

enum class Thread { rings, radials }; // which is laid first: stage by stage, or pipeline by pipeline

// The cells, group by group; empty when the sites have too few slots.

std::vector<int> weave(const Problem &problem, const Shape &shape, int hub, Thread thread);

} // namespace spider::plan
