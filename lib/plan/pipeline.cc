// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/pipeline.h"

#include <algorithm>
#include <cmath>

namespace spider::plan {

namespace {

// What no depth can beat.
Period floor_of(const Pipeline &pipeline) {
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

} // namespace

Period period(const Pipeline &pipeline, std::span<const int> depths, int micro_batches) {
    auto best = floor_of(pipeline);
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
        if (depths[i] >= micro_batches) continue;
        Seconds cycle = pipeline.stages[i].both();
        for (std::size_t j = i + 1; j < pipeline.stages.size(); ++j) {
            cycle += pipeline.boundaries[j - 1].both() + pipeline.stages[j].both();
            const Seconds mean = cycle / (depths[i] - depths[j] + 1);
            if (mean > best.seconds)
                best = {mean, Period::Kind::round_trip, static_cast<int>(i), static_cast<int>(j)};
        }
    }
    return best;
}

std::vector<int> hiding_depths(const Pipeline &pipeline, std::span<const int> caps) {
    const auto stages = pipeline.stages.size();
    const Seconds tau = floor_of(pipeline).seconds;
    std::vector<double> wanted(stages, 1.0);
    for (std::size_t i = stages; i-- > 0;) {
        Seconds cycle = pipeline.stages[i].both();
        for (std::size_t j = i + 1; j < stages; ++j) {
            cycle += pipeline.boundaries[j - 1].both() + pipeline.stages[j].both();
            // A hair below, so that rounding does not cost a micro-batch of memory.
            if (tau > 0)
                wanted[i] = std::max(wanted[i], std::ceil(cycle / tau * (1 - 1e-12)) + wanted[j] - 1);
        }
    }
    std::vector<int> depths(stages, 1);
    for (std::size_t i = 0; i < stages; ++i) {
        depths[i] = static_cast<int>(std::min<double>(wanted[i], caps[i]));
        if (i > 0) depths[i] = std::min(depths[i], depths[i - 1]); // more is never in flight downstream
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

} // namespace spider::plan
