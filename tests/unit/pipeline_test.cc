// SPDX-License-Identifier: GPL-3.0-or-later
// The period formula and the depths against an event simulation that knows nothing of either.
#include "plan/layers.h"
#include "plan/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace spider::plan {
namespace {

constexpr int endless = 1 << 30;

// 1F1B event by event: each stage does its operations in order, each link its messages; sends do not block.
class Simulation {
  public:
    Simulation(const Pipeline &pipeline, std::vector<int> depths, int micro_batches)
        : pipeline_(pipeline), depths_(std::move(depths)), batches_(micro_batches) {
        const auto stages = pipeline.stages.size();
        for (auto *all : {&arrived_, &returned_})
            all->assign(stages, std::vector<double>(static_cast<std::size_t>(batches_), -1));
        arrived_.front().assign(static_cast<std::size_t>(batches_), 0);
        forwards_.assign(stages, 0), backwards_.assign(stages, 0);
        stage_free_.assign(stages, 0), link_free_.assign(stages, 0), back_free_.assign(stages, 0);
    }

    double seconds() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < pipeline_.stages.size(); ++i)
                while (step(i))
                    moved = true;
        }
        for (const int done : backwards_)
            EXPECT_EQ(done, batches_) << "deadlock";
        return *std::max_element(stage_free_.begin(), stage_free_.end());
    }

  private:
    bool step(std::size_t i) {
        const bool forward = forwards_[i] < batches_ && forwards_[i] - backwards_[i] < depths_[i];
        return forward ? step_forward(i) : step_backward(i);
    }
    bool step_forward(std::size_t i) {
        const auto m = static_cast<std::size_t>(forwards_[i]);
        if (arrived_[i][m] < 0) return false;
        const double end = stage_free_[i] =
            std::max(stage_free_[i], arrived_[i][m]) + pipeline_.stages[i].forward;
        ++forwards_[i];
        if (i + 1 == pipeline_.stages.size()) {
            returned_[i][m] = end;
        } else {
            const auto &link = pipeline_.boundaries[i];
            link_free_[i] = std::max(link_free_[i], end) + link.occupancy;
            arrived_[i + 1][m] = link_free_[i] + link.latency;
        }
        return true;
    }
    bool step_backward(std::size_t i) {
        const auto m = static_cast<std::size_t>(backwards_[i]);
        if (backwards_[i] == batches_ || returned_[i][m] < 0) return false;
        const double end = stage_free_[i] =
            std::max(stage_free_[i], returned_[i][m]) + pipeline_.stages[i].backward;
        ++backwards_[i];
        if (i > 0) {
            const auto &link = pipeline_.boundaries[i - 1];
            back_free_[i - 1] = std::max(back_free_[i - 1], end) + link.back_occupancy;
            returned_[i - 1][m] = back_free_[i - 1] + link.back_latency;
        }
        return true;
    }

    const Pipeline &pipeline_;
    std::vector<int> depths_;
    int batches_;
    std::vector<std::vector<double>> arrived_, returned_; // at stage i, micro-batch m
    std::vector<int> forwards_, backwards_;
    std::vector<double> stage_free_, link_free_, back_free_;
};

double simulated(const Pipeline &pipeline, const std::vector<int> &depths, int micro_batches) {
    return Simulation(pipeline, depths, micro_batches).seconds();
}

double slope(const Pipeline &pipeline, const std::vector<int> &depths) {
    constexpr int few = 500, many = 1500;
    return (simulated(pipeline, depths, many) - simulated(pipeline, depths, few)) / (many - few);
}

Pipeline random_pipeline(std::mt19937 &chance) {
    const auto real = [&](double low, double high) {
        return std::uniform_real_distribution<>(low, high)(chance);
    };
    Pipeline pipeline;
    for (auto stages = 2 + chance() % 7; stages > 0; --stages) {
        pipeline.stages.push_back({real(0.5, 1.5), real(1, 3)});
        if (stages == 1) break;
        const bool wide = chance() % 2 == 0; // a link inside a site, or between two
        pipeline.boundaries.push_back(wide ? Boundary{0.001, 0.01, 0.001, 0.01}
                                           : Boundary{real(0, 10), real(0, 4), real(0, 10), real(0, 4)});
    }
    return pipeline;
}

std::vector<int> random_depths(std::mt19937 &chance, std::size_t stages) {
    std::vector<int> depths(stages);
    int depth = 1 + static_cast<int>(chance() % 2);
    for (auto i = stages; i-- > 0; depth += static_cast<int>(chance() % 4))
        depths[i] = depth;
    return depths;
}

TEST(Period, IsTheSlopeOfTheSimulatedScheduleForRandomPipelines) {
    std::mt19937 chance(3);
    int close = 0;
    constexpr int rounds = 300;
    for (int round = 0; round < rounds; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto depths = random_depths(chance, pipeline.stages.size());
        const double formula = period(pipeline, depths, endless).seconds;
        const double measured = slope(pipeline, depths);
        EXPECT_NEAR(formula / measured, 1, 0.003) << "round " << round;
        close += std::abs(formula / measured - 1) < 0.001;
    }
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

TEST(Depths, HideTheLinksAndOneLessDoesNot) {
    std::mt19937 chance(5);
    int lowered = 0, slower = 0;
    for (int round = 0; round < 200; ++round) {
        const auto pipeline = random_pipeline(chance);
        const std::vector<int> caps(pipeline.stages.size(), 1000);
        auto depths = hiding_depths(pipeline, caps);
        double best = 0;
        for (const auto &stage : pipeline.stages)
            best = std::max(best, stage.both());
        for (const auto &link : pipeline.boundaries)
            best = std::max(best, link.busiest());
        EXPECT_NEAR(slope(pipeline, depths) / best, 1, 0.002) << "round " << round;
        if (depths[0] == depths[1]) continue;
        --depths[0];
        const double shallower = slope(pipeline, depths);
        EXPECT_GT(period(pipeline, depths, endless).seconds, best) << "round " << round;
        EXPECT_NEAR(shallower / period(pipeline, depths, endless).seconds, 1, 0.003) << "round " << round;
        slower += shallower / best > 1.001;
        ++lowered;
    }
    EXPECT_GT(lowered, 150);
    EXPECT_GE(slower, lowered * 98 / 100); // the rest: a round trip just above a whole number of periods
}

TEST(Depths, NeverRiseDownstreamNorPassTheirCaps) {
    std::mt19937 chance(6);
    for (int round = 0; round < 200; ++round) {
        const auto pipeline = random_pipeline(chance);
        std::vector<int> caps;
        for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
            caps.push_back(1 + static_cast<int>(chance() % 9));
        const auto depths = hiding_depths(pipeline, caps);
        for (std::size_t i = 0; i < depths.size(); ++i) {
            EXPECT_GE(depths[i], 1);
            EXPECT_LE(depths[i], caps[i]);
            EXPECT_LE(depths[i], depths[i == 0 ? 0 : i - 1]);
        }
        EXPECT_NEAR(period(pipeline, depths, endless).seconds / slope(pipeline, depths), 1, 0.003);
    }
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

// Every way to deal `left` layers to the vessels from `at` on.
double brute_force(const std::vector<Vessel> &vessels, std::size_t at, int left) {
    constexpr double never = 1e300;
    if (at == vessels.size()) return left == 0 ? 0 : never;
    double best = never;
    for (int n = 1; n <= std::min(left, vessels[at].most); ++n)
        best = std::min(
            best, std::max(vessels[at].base + n * vessels[at].each, brute_force(vessels, at + 1, left - n)));
    return best;
}

TEST(Layers, WaterFillingIsAsGoodAsEverySplit) {
    std::mt19937 chance(9);
    int full = 0;
    for (int round = 0; round < 300; ++round) {
        const auto whole = [&](unsigned below) { return static_cast<int>(chance() % below); };
        std::vector<Vessel> vessels(1 + chance() % 4);
        for (auto &vessel : vessels)
            vessel = {1.0 + whole(5), 1.0 * whole(7), 1 + whole(8)};
        const int layers = 1 + static_cast<int>(chance() % 16);
        const auto filled = fill(vessels, layers);
        const double best = brute_force(vessels, 0, layers);
        EXPECT_EQ(filled.empty(), best > 1e299);
        if (filled.empty()) continue;
        EXPECT_EQ(std::accumulate(filled.begin(), filled.end(), 0), layers);
        double fullest = 0;
        for (std::size_t i = 0; i < vessels.size(); ++i) {
            EXPECT_GE(filled[i], 1);
            EXPECT_LE(filled[i], vessels[i].most);
            fullest = std::max(fullest, vessels[i].base + filled[i] * vessels[i].each);
        }
        EXPECT_DOUBLE_EQ(fullest, best);
        ++full;
    }
    EXPECT_GT(full, 100);
}

} // namespace
} // namespace spider::plan
