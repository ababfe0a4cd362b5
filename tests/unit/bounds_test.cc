// SPDX-License-Identifier: GPL-3.0-or-later
// Bounds under the price of any web, and near it where there is nothing to lose.
#include "plan/bounds.h"
#include "plan/price.h"

#include "random_webs.h"

#include <cstdio>

namespace spider::plan {
namespace {

TEST(Bounds, AreNotAboveThePriceOfAnyRandomWeb) {
    static const std::vector<ModelSpec> models{model_of_file("bench-13b"), llama_13b(),
                                               model_of_file("deepseek-v2-lite"),
                                               model_of_file("llama-3.2-1b")};
    Chance chance(1);
    int webs = 0;
    double nearest = never;
    for (int round = 0; round < 600; ++round) {
        const int count = chance.pick(1, 8);
        auto sites = random_sites(chance, count, 4, {"a100", "h100", "l40s"});
        for (auto &site : sites)
            if (chance.one_in(4)) site.uplink_gbps = chance.spread(0.5, 20);
        const auto links = random_links(chance, count, chance.one_in(2));
        const Case it(*Federation::make(std::move(sites), links), random_job(chance, models));
        const Bounds bounds(it.problem);
        const auto of_job = bounds.of_job();
        for (int n = 0; n < 40; ++n) {
            const Shape shape{8, chance.pick(1, 8), 1 << chance.pick(0, 2), 1 << chance.pick(0, 1)};
            if (shape.stages > it.spec.model.layers) continue;
            const auto web = random_web(chance, it.problem, shape);
            if (web.cells.empty()) continue;
            const auto priced = price(it.problem, web);
            if (!priced) continue;
            const auto of_shape = bounds.of_shape(shape.tp, shape.stages, shape.dp());
            const auto seconds = priced->iteration.seconds * (1 + 1e-9);
            EXPECT_LE(of_shape, seconds) << "round " << round << " web " << n;
            EXPECT_LE(of_job, of_shape);
            nearest = std::min(nearest, seconds / of_shape - 1), ++webs;
        }
    }
    std::printf("%d webs, the nearest %.2f %% above its bound\n", webs, 100 * nearest);
    EXPECT_GT(webs, 3000);
}

// 16 slots of one kind, layers that are alike, all in memory.
class BoundsOfOneSite : public testing::Test {
  protected:
    [[nodiscard]] static double gap(int global_batch, int stages, int dp) {
        auto spec = job(model_of_file("bench-13b"), global_batch, "");
        spec.sequence = 1, spec.tp = 8, spec.pp = stages, spec.dp = dp;
        auto only = site("s1", 16, 8);
        only.intra_gbps = 1e6, only.intra_rtt_ms = 0; // as good as none
        const Case it(clique({only}), spec);
        Web web{{8, stages, 1, dp}, std::vector<int>(static_cast<std::size_t>(stages), 0), {}};
        web.layers.assign(static_cast<std::size_t>(stages), 40 / stages);
        return price(it.problem, web)->iteration.seconds / Bounds(it.problem).of_job() - 1;
    }
};

TEST_F(BoundsOfOneSite, OneSlotReachesItsBound) { EXPECT_NEAR(gap(64, 1, 1), 0, 1e-9); }

TEST_F(BoundsOfOneSite, APipelineIsABubbleAboveItsBound) { // M + P - 1 rounds instead of M
    EXPECT_NEAR(gap(1024, 4, 1), 3.0 / 1024, 1e-4);
    EXPECT_NEAR(gap(1024, 8, 1), 7.0 / 1024, 1e-4);
    EXPECT_NEAR(gap(1024, 4, 4), 3.0 / 256, 1e-3) << "and a ring over that network";
}

TEST_F(BoundsOfOneSite, OneMicroBatchIsOnePass) { EXPECT_NEAR(gap(1, 8, 1), 0, 1e-3); }

// What one GPU type is good at, another need not be: speeds of the whole model do not add up.
TEST(Bounds, HoldWhenGpuTypesAreGoodAtDifferentLayers) {
    ModelSpec model;
    model.layers = 2;
    model.costs = {.times = {{"", {10}, {10}}, {"a100", {1, 10}, {1, 10}}, {"h100", {10, 1}, {10, 1}}},
                   .boundary = 1,
                   .gradient = {1},
                   .state = {},
                   .activation = {}};
    auto spec = job(model, 1000, "");
    spec.sequence = 1, spec.tp = 8, spec.pp = 2, spec.dp = 1;
    const Case it(clique({site("s1", 1, 8, "a100"), site("s2", 1, 8, "h100")}, 10, 0), spec);
    const auto priced = price(it.problem, {{8, 2, 1, 1}, {0, 1}, {1, 1}});
    ASSERT_TRUE(priced);
    EXPECT_NEAR(priced->iteration.seconds, 2 * 1001, 1e-3);
    EXPECT_LE(Bounds(it.problem).of_job(), priced->iteration.seconds);
    EXPECT_NEAR(Bounds(it.problem).of_job(), 2 * 1000, 4);
}

} // namespace
} // namespace spider::plan
