// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/spin.h"

#include "plan/bounds.h"
#include "plan/field.h"
#include "plan/plan_of.h"
#include "plan/reason.h"
#include "plan/spinsearch.h"

#include <algorithm>
#include <memory>

namespace spider::plan {

namespace {

constexpr std::size_t most_starts = 4; // points of time that are planned for, now included

// One point of time: the sites as they will be, and the best plans there.
struct Start {
    Seconds after = 0;
    Field field;
    std::unique_ptr<Problem> problem;
    std::unique_ptr<SpinSearch> search;

    [[nodiscard]] const Found *alone() const { return found(Family::alone); }
    [[nodiscard]] const Found *over() const {
        const Found *best = nullptr;
        for (const auto family : {Family::pipeline, Family::data, Family::both}) {
            const auto *one = found(family);
            if (one && (!best || one->seconds() < best->seconds())) best = one;
        }
        return best;
    }
    [[nodiscard]] const Found *best(const JobSpec &spec) const {
        const auto *single = alone(), *several = over();
        if (spec.sites.size() > 1 || !single) return several;
        return several && several->seconds() < single->seconds() ? several : single;
    }

  private:
    [[nodiscard]] const Found *found(Family family) const {
        return search && search->best(family) ? &*search->best(family) : nullptr;
    }
};

// When something comes free, from now; now first.
std::vector<Seconds> starts_of(const Federation &federation) {
    std::vector<Seconds> starts{0};
    for (const auto &site : federation.sites())
        for (const auto &nodes : site.classes)
            for (const auto &later : nodes.later)
                starts.push_back(later.after);
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    if (starts.size() <= most_starts) return starts;
    std::vector<Seconds> some; // evenly among them, the last included
    for (std::size_t i = 0; i < most_starts; ++i)
        some.push_back(starts[i * (starts.size() - 1) / (most_starts - 1)]);
    return some;
}

// Seconds until the job is done, or of one iteration where that is all that is known or asked for.
Seconds cost_of(const JobSpec &spec, const Start &start, const Found &found) {
    if (spec.objective == Objective::throughput) return found.seconds();
    return start.after + std::max(spec.iterations, 1) * found.seconds();
}

void add_alternatives(Plan &plan, const JobSpec &spec, const std::vector<Start> &starts, const Start &chosen,
                      const Found &best) {
    for (std::size_t i = 0; i < families; ++i) {
        const auto &found = chosen.search->best(static_cast<Family>(i));
        if (!found || &*found == &best) continue;
        plan.alternatives.push_back({std::string(name(static_cast<Family>(i))), found->seconds(),
                                     chosen.after, site_names(*chosen.problem, found->web)});
    }
    for (const auto &start : starts) {
        const auto *other = &start == &chosen ? nullptr : start.best(spec);
        if (!other) continue;
        plan.alternatives.push_back({start.after > 0 ? "starting later" : "starting now", other->seconds(),
                                     start.after, site_names(*start.problem, other->web)});
    }
}

} // namespace

Result<Plan> spin(const Federation &federation, const JobSpec &spec, const Options &options) {
    Search record{.planner = "spin", .seed = options.seed};
    std::vector<Start> starts;
    const auto times = starts_of(federation);
    std::size_t chosen = times.size();
    Seconds least = never;
    for (const auto after : times) {
        starts.push_back({after, field_of(federation, spec, spec.limits, after), nullptr, nullptr});
    }
    for (std::size_t i = 0; i < starts.size(); ++i) {
        auto &start = starts[i];
        if (!start.field.trouble.empty()) continue;
        start.problem = std::make_unique<Problem>(federation, spec, start.field.pools, start.field.home);
        start.search = std::make_unique<SpinSearch>(
            *start.problem, options.budget / static_cast<double>(starts.size()), options.seed);
        start.search->run();
        record.evaluations += start.search->evaluations();
        const auto *best = start.best(spec);
        // Waiting must pay: without a number of iterations only a start now, or the first that is possible,
        // is known to.
        if (best && (chosen == times.size() || (spec.iterations > 0 && cost_of(spec, start, *best) < least)))
            chosen = i, least = cost_of(spec, start, *best);
    }
    if (chosen == times.size()) return Plan{.reason = why_infeasible(federation, spec), .search = record};

    const auto &start = starts[chosen];
    const auto *best = start.best(spec);
    auto plan = plan_of(*start.problem, best->web, best->priced);
    plan.family = name(family_of(best->web));
    plan.start = start.after;
    plan.reason = why_planned(*start.problem, start.alone(), start.over(), best != start.alone());
    plan.iteration.bound = std::min(Bounds(*start.problem).of_job(), plan.iteration.seconds);
    if (start.field.home >= 0 && start.alone()) plan.home_alone = start.alone()->seconds();
    add_alternatives(plan, spec, starts, start, *best);
    plan.search = record;
    return plan;
}

} // namespace spider::plan
