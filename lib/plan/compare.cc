// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/compare.h"

#include "model/trainer.h"
#include "plan/bounds.h"
#include "plan/field.h"
#include "plan/plan_of.h"
#include "plan/reason.h"

#include <algorithm>
#include <memory>

namespace spider::plan {

namespace {

constexpr double search_share =
    0.85; // of the budget; the rest is for bounds, layers inside sites and the plan itself
constexpr std::size_t most_starts = 4; // points of time that are planned for, now included

// The best plans for one point of time and one kind of recomputation.
class Trial {
  public:
    Trial(const Federation &federation, const JobSpec &spec, Seconds after, Recompute recompute)
        : after_(after), spec_(spec) {
        spec_.recompute = recompute;
        field_ = field_of(federation, spec_, limits_of(spec_), after);
        if (field_.trouble.empty())
            problem_ = std::make_unique<Problem>(federation, spec_, field_.pools, field_.home);
    }

    Result<void> run(const Finder &find, Seconds budget) {
        if (!problem_) return {};
        auto finds = find(*problem_, budget);
        if (!finds) return std::move(finds).error();
        finds_ = std::move(*finds);
        return {};
    }

    [[nodiscard]] Seconds after() const { return after_; }
    [[nodiscard]] const Problem &problem() const { return *problem_; }
    [[nodiscard]] bool has_home() const { return field_.home >= 0; }
    [[nodiscard]] std::int64_t evaluations() const { return finds_.evaluations; }
    [[nodiscard]] const Found *of(Family family) const {
        const auto &best = finds_.best[static_cast<std::size_t>(family)];
        return best && can_be_launched(*problem_, best->web) ? &*best : nullptr;
    }
    [[nodiscard]] bool has_other_launch() const { // a plan, but not for the job's launcher
        return std::any_of(finds_.best.begin(), finds_.best.end(),
                           [](const auto &best) { return best.has_value(); });
    }
    [[nodiscard]] const Found *alone() const { return of(Family::alone); }
    [[nodiscard]] const Found *over() const {
        const Found *best = nullptr;
        for (const auto family : {Family::pipeline, Family::data, Family::both}) {
            const auto *one = of(family);
            if (one && (!best || one->seconds() < best->seconds())) best = one;
        }
        return best;
    }
    [[nodiscard]] const Found *best() const {
        const auto *single = alone(), *several = over();
        if (spec_.sites.size() > 1 || !single) return several;
        return several && several->seconds() < single->seconds() ? several : single;
    }

    // Until the job is done; of one iteration where that is all that is known or asked for.
    [[nodiscard]] Seconds cost() const {
        if (!best()) return never;
        if (spec_.objective == Objective::throughput) return best()->seconds();
        return after_ + std::max(spec_.iterations, 1) * best()->seconds();
    }

    // Memory keeps some stage from the depth that would hide its links.
    [[nodiscard]] bool lacks_memory() const {
        const auto *found = best();
        if (!found) return true;
        for (const auto &pipeline : found->priced.pipelines) {
            const auto tau =
                period(pipeline, found->priced.depths, problem_->micro_batches(found->web.shape.dp()));
            if (tau.seconds > 1.01 * least_period(pipeline).seconds) return true;
        }
        return false;
    }

  private:
    Seconds after_;
    JobSpec spec_;
    Field field_;
    std::unique_ptr<Problem> problem_;
    Finds finds_;
};

using Trials = std::vector<std::unique_ptr<Trial>>;

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

void add_alternatives(Plan &plan, const Trials &trials, const Trial &chosen) {
    for (std::size_t i = 0; i < families; ++i) {
        const auto family = static_cast<Family>(i);
        const Found *best = nullptr;
        const Trial *of = nullptr; // with either kind of recomputation
        for (const auto &trial : trials) {
            const auto *found = trial->after() == chosen.after() ? trial->of(family) : nullptr;
            if (found && (!best || found->seconds() < best->seconds())) best = found, of = trial.get();
        }
        if (best && best->seconds() != chosen.best()->seconds())
            plan.alternatives.push_back({std::string(name(family)), best->seconds(), chosen.after(),
                                         site_names(of->problem(), best->web)});
    }
    for (const auto &trial : trials) {
        const auto *other = trial->after() == chosen.after() ? nullptr : trial->best();
        if (!other || trial->problem().spec().recompute != chosen.problem().spec().recompute) continue;
        plan.alternatives.push_back({trial->after() > 0 ? "starting later" : "starting now", other->seconds(),
                                     trial->after(), site_names(trial->problem(), other->web)});
    }
}

// Waiting must pay: where the number of iterations is not known, only the first start that is possible is
// known to.
const Trial *best_of(const Trials &trials, const JobSpec &spec) {
    const Trial *chosen = nullptr;
    for (const auto &trial : trials) {
        if (!trial->best()) continue;
        const bool later = chosen && trial->after() > chosen->after();
        if (!chosen || (trial->cost() < chosen->cost() && (spec.iterations > 0 || !later)))
            chosen = trial.get();
    }
    return chosen;
}

// With the formulas' memory model a job whose recomputation is free tries both ends of it.
Result<Trials> searched(const Finder &find, const Federation &federation, const JobSpec &spec, Seconds all) {
    Trials trials;
    const auto starts = starts_of(federation);
    const bool free = spec.recompute_free && !spec.model.costs;
    const auto budget = search_share * all / static_cast<double>(starts.size() * (free ? 2 : 1));
    for (const auto after : starts) {
        for (const auto recompute : {free ? Recompute::none : spec.recompute, Recompute::full}) {
            const bool second = !trials.empty() && trials.back()->after() == after;
            if (second && (!free || !trials.back()->lacks_memory())) break;
            trials.push_back(std::make_unique<Trial>(federation, spec, after, recompute));
            if (auto ran = trials.back()->run(find, budget); !ran) return std::move(ran).error();
        }
    }
    return trials;
}

} // namespace

Result<Plan> compare(std::string_view planner, const Finder &find, const Federation &federation,
                     const JobSpec &spec, const Options &options) {
    Search record{.planner = std::string(planner), .seed = options.seed};
    const auto searches = searched(find, federation, spec, options.budget);
    if (!searches) return searches.error();
    const auto &trials = *searches;
    for (const auto &trial : trials)
        record.evaluations += trial->evaluations();
    const auto *chosen = best_of(trials, spec);
    if (!chosen) {
        if (launcher_of(spec) == Launcher::torchrun &&
            std::any_of(trials.begin(), trials.end(),
                        [](const auto &trial) { return trial->has_other_launch(); }))
            return Plan{.reason =
                            "torchrun gives each node consecutive ranks, and no plan here has them; use "
                            "launcher=srun (a task for each GPU), or fix dp=1",
                        .search = record};
        auto last = spec; // what needs the least memory
        if (spec.recompute_free) last.recompute = Recompute::full;
        return Plan{.reason = why_infeasible(federation, last), .search = record};
    }

    const auto *best = chosen->best();
    auto plan = plan_of(chosen->problem(), best->web, best->priced);
    plan.family = name(family_of(best->web));
    plan.start = chosen->after();
    plan.reason = why_planned(chosen->problem(), chosen->alone(), chosen->over(), best != chosen->alone());
    plan.iteration.bound = never;
    for (const auto &trial : trials)
        if (trial->after() == chosen->after())
            plan.iteration.bound = std::min(plan.iteration.bound, Bounds(trial->problem()).of_job());
    if (plan.iteration.bound < plan.iteration.seconds * (1 + 1e-9)) // rounding, where the plan reaches it
        plan.iteration.bound = std::min(plan.iteration.bound, plan.iteration.seconds);
    if (!(plan.iteration.bound < never)) plan.iteration.bound = 0; // none is known
    if (chosen->has_home() && chosen->alone()) plan.home_alone = chosen->alone()->seconds();
    add_alternatives(plan, trials, *chosen);
    plan.search = record;
    return plan;
}

} // namespace spider::plan
