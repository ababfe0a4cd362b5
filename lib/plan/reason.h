// SPDX-License-Identifier: GPL-3.0-or-later
// Sentences for Plan::reason: why these sites, or what is missing for any plan, with numbers.
#pragma once

#include "plan/field.h"
#include "plan/spinsearch.h"

namespace spider::plan {

// `alone`, `over`: the best at one site and over several, of which one is the plan.
std::string why_planned(const Problem &problem, const Found *alone, const Found *over, bool several);
std::string why_infeasible(const Federation &federation, const JobSpec &spec);

} // namespace spider::plan
