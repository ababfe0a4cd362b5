// SPDX-License-Identifier: GPL-3.0-or-later
// From a search to a plan: the search is run for every point of time at which something comes free, its
// families of webs and the starts are compared, and the plan says why.
#pragma once

#include "plan/planner.h"
#include "plan/spinsearch.h"

#include <array>
#include <functional>
#include <optional>
#include <string_view>

namespace spider::plan {

// What a search found at one point of time.
struct Finds {
    std::array<std::optional<Found>, families> best; // the fastest of each family
    std::int64_t evaluations = 0;                    // webs estimated or priced
};
using Finder = std::function<Result<Finds>(const Problem &, Seconds budget)>;

// An error of the search is the answer.
Result<Plan> compare(std::string_view planner, const Finder &find, const Federation &federation,
                     const JobSpec &spec, const Options &options);

} // namespace spider::plan
