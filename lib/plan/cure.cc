// SPDX-License-Identifier: GPL-3.0-or-later
// What would help: each change is made to the plan's own numbers, and the iteration followed again.
#include "plan/explain.h"
#include "plan/words.h"

#include <algorithm>
#include <set>

namespace spider::plan {

namespace {

constexpr double most_operations = 5e8; // of all changes together; some seconds
constexpr double worth = 0.005;         // of the time; less is no help

std::size_t index(int value) { return static_cast<std::size_t>(value); }

struct Change {
    std::string what;
    Plan plan;
};

// Every boundary between the two sites, of all pipelines.
template <class Act>
void between(Plan &plan, const Seats &seats, const std::set<std::string> &ends, Act act) {
    for (auto &link : plan.passages)
        if (std::set{seats[index(link.stage)].at(link.dp), seats[index(link.stage) + 1].at(link.dp)} == ends)
            act(link);
}

void add_links(const Plan &plan, const Course &course, std::vector<Change> &changes) {
    const auto seats = seats_of(plan);
    std::set<std::set<std::string>> seen;
    for (std::size_t i = 0; i + 1 < plan.stages.size(); ++i) {
        const std::set ends{seats[i].at(course.slowest), seats[i + 1].at(course.slowest)};
        if (ends.size() < 2 || !seen.insert(ends).second) continue;
        const auto name = *ends.begin() + " <-> " + *ends.rbegin();
        Change wide{"twice the bandwidth between " + name, plan},
            near{"half the latency between " + name, plan};
        between(wide.plan, seats, ends, [](Passage &link) { link.occupancy /= 2, link.back_occupancy /= 2; });
        between(near.plan, seats, ends, [](Passage &link) { link.latency /= 2, link.back_latency /= 2; });
        changes.push_back(std::move(wide));
        changes.push_back(std::move(near));
    }
}

void add_stages(const Plan &plan, const Course &course, std::vector<Change> &changes) {
    const auto &pipeline = course.pipelines[index(course.slowest)];
    const auto slowest =
        std::max_element(pipeline.stages.begin(), pipeline.stages.end(),
                         [](const StageTime &a, const StageTime &b) { return a.both() < b.both(); });
    const auto stage = slowest - pipeline.stages.begin();
    constexpr double faster = 0.9;
    Change quick{"10% less time for stage " + std::to_string(stage), plan};
    auto &at = quick.plan.stages[static_cast<std::size_t>(stage)];
    at.forward *= faster, at.backward *= faster;
    for (auto &member : at.faster)
        member.forward *= faster, member.backward *= faster;
    Change deep{"one more micro-batch in flight at every stage but the last, if memory allows", plan};
    for (std::size_t i = 0; i + 1 < plan.stages.size(); ++i)
        deep.plan.stages[i].depth = std::min(plan.micro_batches, plan.stages[i].depth + 1);
    changes.push_back(std::move(quick));
    if (plan.pp > 1) changes.push_back(std::move(deep));
    Change reduce{"all-reduces twice as fast", plan};
    for (auto &each : reduce.plan.stages)
        each.gradient /= 2;
    changes.push_back(std::move(reduce));
}

} // namespace

Cure best_cure(const Plan &plan, const Course &course) {
    std::vector<Change> changes;
    add_stages(plan, course, changes);
    const double each = 1.0 * plan.pp * plan.dp * plan.micro_batches;
    if (each * 2 * plan.pp < most_operations) add_links(plan, course, changes);
    Cure best{"", course.seconds() * (1 - worth)};
    for (const auto &change : changes) {
        const auto changed = course_of(change.plan);
        if (changed && changed->seconds() < best.seconds) best = {change.what, changed->seconds()};
    }
    return best;
}

} // namespace spider::plan
