// SPDX-License-Identifier: GPL-3.0-or-later
// A priced web as a plan: slots on nodes, stages, boundaries, rings.
#pragma once

#include "plan/price.h"

#include <string>

namespace spider::plan {

// Without reason, bound, alternatives and search.
Plan plan_of(const Problem &problem, const Web &web, const Priced &priced);

// With the job's launcher: torchrun wants consecutive ranks on each node.
bool can_be_launched(const Problem &problem, const Web &web);

std::vector<std::string> site_names(const Problem &problem,
                                    const Web &web); // the home site first, then by stage

} // namespace spider::plan
