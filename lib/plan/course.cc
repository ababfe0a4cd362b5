// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/course.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace spider::plan {

namespace {

constexpr double most_operations = 4e9; // of all stages and micro-batches; some 10 s

std::size_t index(int value) { return static_cast<std::size_t>(value); }

std::optional<Error> broken(const std::string &what) { return Error{Errc::invalid, "plan: " + what}; }

std::optional<Error> trouble_with_shape(const Plan &plan) {
    const auto number = [](auto value) { return std::to_string(value); };
    if (plan.outcome != Outcome::planned) return broken("infeasible: " + plan.reason);
    if (plan.pp < 1 || plan.stages.size() != index(plan.pp))
        return broken("pp is " + number(plan.pp) + ", but there are " + number(plan.stages.size()) +
                      " stages");
    const double operations = 1.0 * plan.pp * plan.dp * plan.micro_batches;
    if (plan.dp < 1 || plan.micro_batches < 1 || !(operations <= most_operations))
        return broken("dp=" + number(plan.dp) + " pipelines of " + number(plan.micro_batches) +
                      " micro-batches cannot be followed");
    const auto boundaries = index(plan.pp - 1) * index(plan.dp);
    if (plan.passages.size() != boundaries)
        return broken("expected " + number(boundaries) + " boundaries, one for each stage but the last and" +
                      " each pipeline; there are " + number(plan.passages.size()));
    return std::nullopt;
}

std::optional<Error> trouble_with_order(const Plan &plan) {
    int before = plan.micro_batches;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto &stage = plan.stages[i];
        const auto name = "stages[" + std::to_string(i) + "]";
        if (stage.depth < 1 || stage.depth > before)
            return broken(name + ": depth: expected a number between 1 and " + std::to_string(before));
        before = stage.depth;
        for (const auto &member : stage.faster)
            if (member.dp < 0 || member.dp >= plan.dp) return broken(name + ": slots: dp is not below dp");
    }
    for (std::size_t n = 0; n < plan.passages.size(); ++n) {
        const auto stage = n / index(plan.dp), dp = n % index(plan.dp);
        if (index(plan.passages[n].stage) != stage || index(plan.passages[n].dp) != dp)
            return broken("boundaries[" + std::to_string(n) + "]: expected stage " + std::to_string(stage) +
                          ", dp " + std::to_string(dp));
    }
    return std::nullopt;
}

std::optional<Error> trouble_with_seats(const Plan &plan) {
    std::size_t slots = 0;
    for (const auto &part : plan.parts) {
        const auto before = slots;
        for (const auto &node : part.nodes) {
            slots += node.size();
            for (const auto &slot : node)
                if (slot.stage < 0 || slot.stage >= plan.pp || slot.dp < 0 || slot.dp >= plan.dp)
                    return broken("sites: " + part.site + ": a slot is outside of pp and dp");
        }
        if (slots == before) return broken("sites: " + part.site + " has no slot");
    }
    if (slots != index(plan.pp) * index(plan.dp))
        return broken("sites: " + std::to_string(slots) + " slots for pp=" + std::to_string(plan.pp) +
                      " dp=" + std::to_string(plan.dp));
    const auto seats = seats_of(plan);
    for (std::size_t i = 0; i < seats.size(); ++i)
        if (seats[i].size() != index(plan.dp))
            return broken("sites: stage " + std::to_string(i) + " has " + std::to_string(seats[i].size()) +
                          " of " + std::to_string(plan.dp) + " members");
    return std::nullopt;
}

// All numbers of a pipeline: most pipelines are like another one.
std::vector<double> key_of(const Pipeline &pipeline) {
    std::vector<double> key;
    for (const auto &stage : pipeline.stages)
        key.insert(key.end(), {stage.forward, stage.backward});
    for (const auto &link : pipeline.boundaries)
        key.insert(key.end(), {link.latency, link.occupancy, link.back_latency, link.back_occupancy});
    return key;
}

} // namespace

Seats seats_of(const Plan &plan) {
    Seats seats(plan.stages.size());
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                if (slot.stage >= 0 && index(slot.stage) < seats.size() && slot.dp >= 0 && slot.dp < plan.dp)
                    seats[index(slot.stage)][slot.dp] = part.site;
    return seats;
}

std::vector<std::string> sites_of(const Seats &seats, std::size_t stage) {
    std::vector<std::string> sites;
    for (const auto &[dp, site] : seats[stage])
        if (std::find(sites.begin(), sites.end(), site) == sites.end()) sites.push_back(site);
    return sites;
}

Pipeline pipeline_of(const Plan &plan, int dp) {
    Pipeline pipeline;
    for (const auto &stage : plan.stages) {
        pipeline.stages.push_back({stage.forward, stage.backward});
        for (const auto &member : stage.faster)
            if (member.dp == dp) pipeline.stages.back() = {member.forward, member.backward};
    }
    for (auto n = index(dp); n < plan.passages.size(); n += index(plan.dp)) {
        const auto &link = plan.passages[n];
        pipeline.boundaries.push_back({link.latency, link.occupancy, link.back_latency, link.back_occupancy});
    }
    return pipeline;
}

Seconds term(const Iteration &iteration, std::string_view name) {
    for (const auto &one : iteration.terms)
        if (one.name == name) return one.seconds;
    return 0;
}

Result<Course> course_of(const Plan &plan) {
    for (const auto trouble : {trouble_with_shape, trouble_with_order, trouble_with_seats})
        if (auto found = trouble(plan)) return std::move(*found);
    Course course;
    for (const auto &stage : plan.stages)
        course.depths.push_back(stage.depth);
    course.ends.assign(plan.stages.size(), 0);
    std::map<std::vector<double>, bool> seen;
    for (int d = 0; d < plan.dp; ++d) {
        auto pipeline = pipeline_of(plan, d);
        if (plan.sends == Sends::blocking) pipeline = with_blocking_sends(pipeline);
        course.pipelines.push_back(pipeline);
        if (!seen.emplace(key_of(pipeline), true).second) continue;
        const auto ends = stage_ends(pipeline, course.depths, plan.micro_batches);
        for (std::size_t i = 0; i < ends.size(); ++i)
            course.ends[i] = std::max(course.ends[i], ends[i]);
        const auto last = *std::max_element(ends.begin(), ends.end());
        if (last > course.pipeline) course.pipeline = last, course.slowest = d;
    }
    for (std::size_t i = 0; i < course.ends.size(); ++i) {
        const auto done = course.ends[i] + plan.stages[i].gradient;
        if (done > course.reduced) course.reduced = done, course.closing = static_cast<int>(i);
    }
    course.tied = term(plan.iteration, "tied embedding");
    if (!std::isfinite(course.seconds())) return *broken("its seconds do not add up to a number");
    return course;
}

} // namespace spider::plan
