// SPDX-License-Identifier: GPL-3.0-or-later
// The period formula and the exact ends against an event simulation that knows nothing of either.
#include "pipeline_simulation.h"
#include "plan/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace spider::plan {
namespace {

TEST(Period, IsTheSlopeOfTheSimulatedScheduleForRandomPipelines) {
    std::mt19937 chance(3);
    constexpr int rounds = 1000;
    int close = 0;
    double worst = 0;
    for (int round = 0; round < rounds; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto depths = random_depths(chance, pipeline.stages.size());
        const double off = std::abs(period(pipeline, depths, endless).seconds / slope(pipeline, depths) - 1);
        EXPECT_LT(off, 0.003) << "round " << round;
        close += off < 0.001;
        worst = std::max(worst, off);
    }
    std::printf("%d of %d within 0.1 %%, worst %.3f %%\n", close, rounds, 100 * worst);
    EXPECT_GE(close, rounds * 99 / 100);
}

TEST(Period, AHandWorkedCaseOfTwoStages) {
    // t = 3 and 3, c + c' = 2 x 4, depth 2: (3 + 3 + 8) / 2. Depth 5 hides it; then the link's occupancy
    // counts.
    const Pipeline pipeline{{{1, 2}, {1, 2}}, {{3, 1, 3, 1}}};
    EXPECT_DOUBLE_EQ(period(pipeline, std::vector{2, 1}, endless).seconds, 7);
    EXPECT_EQ(period(pipeline, std::vector{2, 1}, endless).kind, Period::Kind::round_trip);
    EXPECT_DOUBLE_EQ(period(pipeline, std::vector{5, 1}, endless).seconds, 3);
    EXPECT_DOUBLE_EQ(period(pipeline, std::vector{2, 1}, 2).seconds, 3)
        << "two micro-batches wait for no backward";
    const Pipeline thin{{{1, 2}, {1, 2}}, {{3, 1, 3, 9}}};
    const auto bound_by_link = period(thin, std::vector{50, 1}, endless);
    EXPECT_DOUBLE_EQ(bound_by_link.seconds, 9);
    EXPECT_EQ(bound_by_link.kind, Period::Kind::link);
}

// Adjacent depths differ by one: a hop hides nothing but half a round of its two stages.
TEST(Period, WithMegatronsDepthsAWideAreaHopIsPaidForEveryMicroBatch) {
    Pipeline pipeline{{{10, 20}, {10, 20}, {10, 30}, {10, 20}}, std::vector<Boundary>(3)};
    pipeline.boundaries[1] = {40, 5, 40, 5};
    const std::vector depths{4, 3, 2, 1};
    const auto found = period(pipeline, depths, endless);
    EXPECT_DOUBLE_EQ(found.seconds, (30.0 + 40) / 2 + 45);
    EXPECT_EQ(found.from, 1);
    EXPECT_EQ(found.to, 2);
    EXPECT_NEAR(slope(pipeline, depths), 80, 0.08);
    pipeline.boundaries[0] = {10, 0, 10, 0}; // 30 + 10 there: the worst hop counts
    EXPECT_DOUBLE_EQ(period(pipeline, depths, endless).seconds, 80);
}

// With n hops in a row, n / (n + 1) of two of them is exposed: (3 x 30 + 2 x 2 x 45) / 3.
TEST(Period, WithMegatronsDepthsHopsInARowAreWorseThanOne) {
    const Pipeline pipeline{{{10, 20}, {10, 20}, {10, 20}}, {{40, 5, 40, 5}, {40, 5, 40, 5}}};
    EXPECT_DOUBLE_EQ(period(pipeline, std::vector{3, 2, 1}, endless).seconds, 90);
    EXPECT_NEAR(slope(pipeline, {3, 2, 1}), 90, 0.09);
}

std::vector<int> any_depths(std::mt19937 &chance, std::size_t stages, int micro_batches) {
    if (chance() % 4 == 0) return std::vector(stages, micro_batches); // GPipe's
    return random_depths(chance, stages);                             // often above micro_batches
}

void expect_near(const std::vector<double> &ends, const std::vector<double> &exact, int round) {
    ASSERT_EQ(ends.size(), exact.size());
    for (std::size_t i = 0; i < ends.size(); ++i)
        EXPECT_NEAR(ends[i], exact[i], 1e-9) << "round " << round << ", stage " << i;
}

// Fewer micro-batches than stages, one alone, depths above them: all among the cases.
int random_batches(std::mt19937 &chance) {
    return 1 + static_cast<int>(chance() % (chance() % 2 == 0 ? 6 : 60));
}

TEST(StageEnds, AreTheSimulatedOnes) {
    std::mt19937 chance(11);
    int alone = 0, few = 0, deep = 0;
    for (int round = 0; round < 1000; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto stages = pipeline.stages.size();
        const int batches = random_batches(chance);
        const auto depths = any_depths(chance, stages, batches);
        expect_near(stage_ends(pipeline, depths, batches), Simulation(pipeline, depths, batches).ends(),
                    round);
        alone += batches == 1, few += batches<static_cast<int>(stages), deep += depths[0]> batches;
    }
    EXPECT_GT(std::min({alone, few, deep}), 50);
}

TEST(StageEnds, AreTheSimulatedOnesWhenSendersBlock) {
    std::mt19937 chance(12);
    for (int round = 0; round < 1000; ++round) {
        const auto pipeline = random_pipeline(chance);
        const int batches = random_batches(chance);
        const auto depths = any_depths(chance, pipeline.stages.size(), batches);
        expect_near(stage_ends(with_blocking_sends(pipeline), depths, batches),
                    Simulation(pipeline, depths, batches, Sends::blocking).ends(), round);
    }
}

// 128 micro-batches through eight stages of 36 ms, every hop 10 Gbit/s and 15 ms: seconds from an event
// simulation in Python that is older than this code. It noted no message size; 33.5 ms on the link, which is
// 4096 x 5120 bf16 values, gives all five numbers.
TEST(StageEnds, RepeatATableOfAnotherSimulation) {
    constexpr double message = 0.0335;
    const Pipeline wide{std::vector(8, StageTime{0.012, 0.024}),
                        std::vector(7, Boundary{0.015, message, 0.015, message})};
    const std::vector caps(8, 1000);
    const auto seconds = [&](const std::vector<int> &depths) { return stage_ends(wide, depths, 128)[0]; };
    EXPECT_NEAR(seconds(falling_depths(8, caps)), 16.31, 0.005);
    EXPECT_NEAR(seconds({15, 13, 11, 9, 7, 5, 3, 1}), 9.14, 0.005);
    EXPECT_NEAR(seconds(std::vector(8, 128)), 9.48, 0.005);
    const auto fitted = hiding_depths(wide, caps);
    EXPECT_EQ(fitted[0], 29);
    EXPECT_NEAR(seconds(fitted), 5.54, 0.005);
}

TEST(PipelineSeconds, AreNeverMuchLessThanTheSimulatedTime) {
    std::mt19937 chance(8);
    std::vector<double> over;
    for (int round = 0; round < 500; ++round) {
        const auto pipeline = random_pipeline(chance);
        const int batches = 1 + static_cast<int>(chance() % 200);
        auto depths = random_depths(chance, pipeline.stages.size());
        const int last = depths.back() - 1;
        for (int &depth : depths)
            depth = std::min(depth - last, batches); // as planned: the last stage keeps one
        const double formula = pipeline_seconds(pipeline, period(pipeline, depths, batches), batches);
        const double exact = simulated(pipeline, depths, batches);
        // A stage that holds all micro-batches does forwards and backwards one after the other: an estimate
        // there.
        EXPECT_GE(formula, exact * (depths[0] < batches ? 0.92 : 0.8)) << "round " << round;
        over.push_back(formula / exact);
    }
    std::sort(over.begin(), over.end());
    EXPECT_LT(over[over.size() / 2], 1.1);
}

} // namespace
} // namespace spider::plan
