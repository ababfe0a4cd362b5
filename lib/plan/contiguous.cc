// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/contiguous.h"

#include "plan/bounds.h"
#include "plan/reason.h"

namespace spider::plan {

namespace {

// The budget counted in evaluations, so that the same input gives the same plan on any machine: a slow core
// prices about this many candidates per second.
constexpr double evaluations_per_second = 100'000;

} // namespace

Result<Plan> contiguous(const Federation &federation, const JobSpec &spec, const Options &options) {
    const auto most = static_cast<std::int64_t>(options.budget * evaluations_per_second) + 1000;
    Search record{.planner = "contiguous", .seed = options.seed};
    const auto field = field_of(federation, spec, spec.limits);
    if (!field.trouble.empty()) return Plan{.reason = field.trouble, .search = record};

    Enumeration search(federation, spec, field.pools, field.home, Goal::fastest, most);
    search.run();
    record.evaluations = search.evaluations;
    const bool forced = spec.sites.size() > 1;
    const auto &single = search.single, &many = search.several;
    const bool several =
        many && (forced || !single || many->priced.iteration.seconds < single->priced.iteration.seconds);
    if (!several && (forced || !single))
        return Plan{.reason = why_infeasible(federation, spec, most), .search = record};

    const auto &chosen = several ? *many : *single;
    auto plan = Evaluator(federation, spec).plan(chosen.candidate, chosen.priced);
    plan.reason = why_planned(spec, search, several);
    plan.iteration.bound = iteration_bound(field.pools, spec);
    if (field.home >= 0 && single) plan.home_alone = single->priced.iteration.seconds;
    plan.search = record;
    return plan;
}

} // namespace spider::plan
