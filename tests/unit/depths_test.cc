// SPDX-License-Identifier: GPL-3.0-or-later
// The depths that hide the links, against an event simulation and against every choice of depths.
#include "pipeline_simulation.h"
#include "plan/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

namespace spider::plan {
namespace {

// The slowest stage or the busiest link, by hand.
double floor_of(const Pipeline &pipeline) {
    double most = 0;
    for (const auto &stage : pipeline.stages)
        most = std::max(most, stage.forward + stage.backward);
    for (const auto &link : pipeline.boundaries)
        most = std::max({most, link.occupancy, link.back_occupancy});
    return most;
}

TEST(Depths, HideTheLinks) {
    std::mt19937 chance(5);
    for (int round = 0; round < 300; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto depths = hiding_depths(pipeline, std::vector(pipeline.stages.size(), 1000));
        EXPECT_EQ(depths.back(), 1);
        EXPECT_NEAR(slope(pipeline, depths) / floor_of(pipeline), 1, 0.002) << "round " << round;
    }
}

// Whole seconds: what is slower is slower by at least a second in the number of micro-batches on the way.
Pipeline whole_pipeline(std::mt19937 &chance) {
    const auto whole = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(chance); };
    Pipeline pipeline;
    for (int stages = whole(2, 6); stages > 0; --stages) {
        pipeline.stages.push_back({1.0 * whole(2, 6), 1.0 * whole(4, 12)});
        if (stages == 1) break;
        pipeline.boundaries.push_back(
            {1.0 * whole(0, 30), 1.0 * whole(0, 10), 1.0 * whole(0, 30), 1.0 * whole(0, 10)});
    }
    return pipeline;
}

// A depth that equals the next stage's cannot be lowered alone: stage i would wait for a backward that stage
// i+1 starts only after one more forward.
TEST(Depths, NoneThatCanBeLoweredIsOneTooHigh) {
    std::mt19937 chance(7);
    int lowered = 0, first = 0;
    for (int round = 0; round < 300; ++round) {
        const auto pipeline = whole_pipeline(chance);
        const auto depths = hiding_depths(pipeline, std::vector(pipeline.stages.size(), 1000));
        for (std::size_t i = 0; i + 1 < depths.size(); ++i) {
            if (depths[i] == depths[i + 1]) continue;
            auto less = depths;
            --less[i];
            EXPECT_GT(slope(pipeline, less), floor_of(pipeline) + 0.5 / depths[0])
                << "round " << round << ", stage " << i;
            ++lowered, first += i == 0;
        }
    }
    std::printf("%d depths lowered by one, %d of them the first\n", lowered, first);
    EXPECT_GT(lowered, 700);
    EXPECT_GT(first, 250);
}

// Every vector within the caps that does not increase: the others wait for ever.
template <class Visit>
void each_within(const std::vector<int> &caps, std::vector<int> &depths, Visit visit) {
    if (depths.size() == caps.size()) return visit(depths);
    const int most = std::min(caps[depths.size()], depths.empty() ? endless : depths.back());
    for (int depth = 1; depth <= most; ++depth) {
        depths.push_back(depth);
        each_within(caps, depths, visit);
        depths.pop_back();
    }
}

std::vector<int> random_caps(std::mt19937 &chance, std::size_t stages, unsigned most) {
    std::vector<int> caps(stages);
    for (int &cap : caps)
        cap = 1 + static_cast<int>(chance() % most);
    return caps;
}

TEST(Depths, WithinCapsAreAsGoodAsEveryOtherChoiceAndTheSmallestOfTheBest) {
    std::mt19937 chance(10);
    int bound = 0;
    for (int round = 0; round < 300; ++round) {
        const auto pipeline = random_pipeline(chance, 4);
        const auto caps = random_caps(chance, pipeline.stages.size(), 6);
        const auto depths = hiding_depths(pipeline, caps);
        const double found = period(pipeline, depths, endless).seconds;
        std::vector<int> none;
        each_within(caps, none, [&](const std::vector<int> &other) {
            const double theirs = period(pipeline, other, endless).seconds;
            EXPECT_LE(found, theirs * (1 + 1e-8)) << "round " << round;
            if (theirs > found * (1 + 1e-8)) return;
            for (std::size_t i = 0; i < depths.size(); ++i)
                EXPECT_LE(depths[i], other[i]) << "round " << round << ", stage " << i;
        });
        bound += found > floor_of(pipeline) * 1.001;
    }
    EXPECT_GT(bound, 100);
}

TEST(Depths, WithinCapsAreAsFastAsEveryOtherChoiceInTheSimulation) {
    std::mt19937 chance(13);
    for (int round = 0; round < 60; ++round) {
        const auto pipeline = random_pipeline(chance, 3);
        const auto caps = random_caps(chance, pipeline.stages.size(), 5);
        const double found = slope(pipeline, hiding_depths(pipeline, caps));
        std::vector<int> none;
        each_within(caps, none, [&](const std::vector<int> &other) {
            EXPECT_LE(found, slope(pipeline, other) * 1.003) << "round " << round;
        });
    }
}

TEST(Depths, NeverRiseDownstreamNorPassTheirCaps) {
    std::mt19937 chance(6);
    for (int round = 0; round < 300; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto caps = random_caps(chance, pipeline.stages.size(), 9);
        for (const auto &depths : {hiding_depths(pipeline, caps), falling_depths(8, caps)})
            for (std::size_t i = 0; i < depths.size(); ++i) {
                EXPECT_GE(depths[i], 1);
                EXPECT_LE(depths[i], caps[i]);
                EXPECT_LE(depths[i], depths[i == 0 ? 0 : i - 1]);
            }
    }
}

TEST(Depths, FallByOneFromTheNumberOfStages) {
    EXPECT_EQ(falling_depths(4, std::vector{9, 9, 9, 9}), (std::vector{4, 3, 2, 1}));
    EXPECT_EQ(falling_depths(2, std::vector{9, 9, 9, 9}), (std::vector{2, 1, 1, 1}));
    EXPECT_EQ(falling_depths(4, std::vector{9, 1, 9, 9}), (std::vector{4, 1, 1, 1}));
}

} // namespace
} // namespace spider::plan
