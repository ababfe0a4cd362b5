// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/pipeline.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace spider::plan {

Pipeline with_blocking_sends(const Pipeline &pipeline) {
    Pipeline blocked{pipeline.stages, std::vector<Boundary>(pipeline.boundaries.size())};
    for (std::size_t i = 0; i < pipeline.boundaries.size(); ++i) {
        blocked.stages[i].forward += pipeline.boundaries[i].forward();
        blocked.stages[i + 1].backward += pipeline.boundaries[i].backward();
    }
    return blocked;
}

Period least_period(const Pipeline &pipeline) {
    Period best;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
        const auto at = static_cast<int>(i);
        if (pipeline.stages[i].both() > best.seconds)
            best = {pipeline.stages[i].both(), Period::Kind::stage, at, at};
    }
    for (std::size_t i = 0; i < pipeline.boundaries.size(); ++i) {
        const auto at = static_cast<int>(i);
        if (pipeline.boundaries[i].busiest() > best.seconds)
            best = {pipeline.boundaries[i].busiest(), Period::Kind::link, at, at + 1};
    }
    return best;
}

Period period(const Pipeline &pipeline, std::span<const int> depths, int micro_batches) {
    auto best = least_period(pipeline);
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
        if (depths[i] >= micro_batches) continue;
        Seconds cycle = pipeline.stages[i].both();
        for (std::size_t j = i + 1; j < pipeline.stages.size(); ++j) {
            cycle += pipeline.boundaries[j - 1].both() + pipeline.stages[j].both();
            const int tokens = depths[i] - depths[j] + 1;
            if (cycle > best.seconds * tokens)
                best = {cycle / tokens, Period::Kind::round_trip, static_cast<int>(i), static_cast<int>(j)};
        }
    }
    return best;
}

namespace {

// The least depths that reach `tau`; nothing when one of them is above its cap.
std::optional<std::vector<int>> depths_for(const Pipeline &pipeline, Seconds tau, std::span<const int> caps) {
    const auto stages = pipeline.stages.size();
    std::vector<int> depths(stages, 1);
    for (std::size_t i = stages; i-- > 0;) {
        Seconds cycle = pipeline.stages[i].both();
        double wanted = i + 1 < stages ? depths[i + 1] : 1;
        for (std::size_t j = i + 1; j < stages; ++j) {
            cycle += pipeline.boundaries[j - 1].both() + pipeline.stages[j].both();
            // A hair below, so that rounding does not cost a micro-batch of memory.
            wanted = std::max(wanted, std::ceil(cycle / tau * (1 - 1e-12)) + depths[j] - 1);
        }
        if (wanted > caps[i]) return std::nullopt;
        depths[i] = static_cast<int>(wanted);
    }
    return depths;
}

} // namespace

std::vector<int> hiding_depths(const Pipeline &pipeline, std::span<const int> caps, double tolerance) {
    auto low = least_period(pipeline).seconds;
    if (low <= 0) return std::vector<int>(pipeline.stages.size(), 1);
    if (auto best = depths_for(pipeline, low, caps)) return *best;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) { // no k_i above its cap, no k_j below 1
        Seconds cycle = pipeline.stages[i].both();
        for (std::size_t j = i + 1; j < pipeline.stages.size(); ++j) {
            cycle += pipeline.boundaries[j - 1].both() + pipeline.stages[j].both();
            if (cycle > low * caps[i]) low = cycle / caps[i];
        }
    }
    // Depths of 1 reach the sum of everything: the answer lies between.
    auto high = low;
    auto depths = depths_for(pipeline, high, caps);
    for (double step = 1.02; !depths; step *= step) {
        low = high, high = std::min(high * step, one_pass(pipeline) * (1 + 1e-9));
        depths = depths_for(pipeline, high, caps);
    }
    while (high > low * (1 + tolerance)) {
        const auto middle = (low + high) / 2;
        if (auto found = depths_for(pipeline, middle, caps))
            depths = std::move(*found), high = middle;
        else
            low = middle;
    }
    return *depths;
}

std::vector<int> falling_depths(int first, std::span<const int> caps) {
    std::vector<int> depths;
    for (const int cap : caps) {
        depths.push_back(std::max(1, std::min(first--, cap)));
        if (depths.size() > 1) depths.back() = std::min(depths.back(), depths[depths.size() - 2]);
    }
    return depths;
}

Seconds one_pass(const Pipeline &pipeline) {
    Seconds sum = 0;
    for (const auto &stage : pipeline.stages)
        sum += stage.both();
    for (const auto &boundary : pipeline.boundaries)
        sum += boundary.both();
    return sum;
}

Seconds pipeline_seconds(const Pipeline &pipeline, const Period &period, int micro_batches) {
    return one_pass(pipeline) + (micro_batches - 1) * period.seconds;
}

namespace {

// A stage of the recurrence, the links that it sends on, and the gradients on their way to it.
struct Runner {
    StageTime time;
    Boundary link; // to the next stage
    int depth = 1;
    Seconds free = 0, link_free = 0, back_free = 0; // back_free: of the link from the next stage to this one
    std::size_t first = 0, slots = 1;               // its part of the ring buffer
};

} // namespace

std::vector<Seconds> stage_ends(const Pipeline &pipeline, std::span<const int> depths, int micro_batches) {
    std::vector<Runner> run;
    std::size_t slots = 0;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
        const int depth = std::min(depths[i], micro_batches);
        if (i > 0)
            run.back().slots = static_cast<std::size_t>(run.back().depth - depth + 1),
            slots += run.back().slots;
        run.push_back({.time = pipeline.stages[i], .link = {}, .depth = depth, .first = slots});
        if (i < pipeline.boundaries.size()) run.back().link = pipeline.boundaries[i];
    }
    std::vector<Seconds> gradient(slots + 1, 0); // arrival at stage i of micro-batch n, at first + n % slots
    // Round r: forward r of every stage that has one, then the backward that 1F1B does after it.
    for (int r = 0; r < micro_batches + run.front().depth - 1; ++r) {
        Seconds arrival = 0;
        for (std::size_t i = 0; i < run.size() && r < micro_batches; ++i) {
            auto &stage = run[i];
            stage.free = std::max(stage.free, arrival) + stage.time.forward;
            stage.link_free = std::max(stage.link_free, stage.free) + stage.link.occupancy;
            arrival = stage.link_free + stage.link.latency;
        }
        for (std::size_t i = run.size(); i-- > 0;) {
            auto &stage = run[i];
            const int n = r - stage.depth + 1;
            if (n < 0 || n >= micro_batches) continue;
            if (i + 1 < run.size())
                stage.free =
                    std::max(stage.free, gradient[stage.first + static_cast<std::size_t>(n) % stage.slots]);
            stage.free += stage.time.backward;
            if (i == 0) continue;
            auto &next = run[i - 1];
            next.back_free = std::max(next.back_free, stage.free) + next.link.back_occupancy;
            gradient[next.first + static_cast<std::size_t>(n) % next.slots] =
                next.back_free + next.link.back_latency;
        }
    }
    std::vector<Seconds> ends;
    for (const auto &stage : run)
        ends.push_back(stage.free);
    return ends;
}

} // namespace spider::plan
