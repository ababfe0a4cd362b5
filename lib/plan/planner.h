// SPDX-License-Identifier: GPL-3.0-or-later
// The seam between those who want a plan and those who search one. Planners are pure: same input and seed,
// same plan.
#pragma once

#include "federation/federation.h"
#include "model/plan.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace spider::plan {

struct Options {
    Seconds budget = 0.2; // anytime planners stop then
    std::uint64_t seed = 1;
};

// Infeasible is an outcome with a reason, not an error. Error: the job itself is senseless (unknown site
// name, pp > layers).
using Planner = Result<Plan> (*)(const Federation &, const JobSpec &, const Options &);

struct Named {
    std::string_view name;
    std::string_view what; // one line for --help
    Planner run;
};

// All planners of this build; the first is the default.
const std::vector<Named> &planners();
Result<Plan> make_plan(const Federation &federation, const JobSpec &spec, const Options &options = {},
                       std::string_view planner = {});

// Judges a plan without trusting the planner. Nothing starts that it refuses. The error says which rule is
// broken.
Result<void> check(const Federation &federation, const JobSpec &spec, const Plan &plan);

} // namespace spider::plan
