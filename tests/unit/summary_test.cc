// SPDX-License-Identifier: GPL-3.0-or-later
// How slots lie on nodes, and what people read of a plan.
#include "plan/capacity.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "plan/words.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

namespace spider::plan {
namespace {

TEST(Words, NumbersAreShort) {
    EXPECT_EQ(gigabytes(78.06e9), "78.1 GB");
    EXPECT_EQ(gigabytes(5.5e6), "5.5 MB");
    EXPECT_EQ(seconds_words(1.234), "1.23 s");
    EXPECT_EQ(seconds_words(0.0123), "12.3 ms");
    EXPECT_EQ(seconds_words(344.4), "344 s");
    EXPECT_EQ(tokens_words(52'300), "52k tokens/s");
    EXPECT_EQ(tokens_words(1'340'000), "1.3M tokens/s");
    EXPECT_EQ(tokens_words(873.4), "873 tokens/s");
    EXPECT_EQ(count(1, "node"), "1 node");
    EXPECT_EQ(percent(0.126), "13%");
}

TEST(Spread, SlotsLieEvenlyOnFewNodes) {
    const auto pool = [](std::vector<int> gpus) {
        Pool some{.gpu = *model::gpu_type_named("h100")};
        for (const int n : gpus)
            some.nodes.push_back({n, 8});
        return some;
    };
    EXPECT_EQ(spread(pool({8, 8}), 1, 8), (std::vector{8}));
    EXPECT_EQ(spread(pool({8, 8}), 1, 10), (std::vector{5, 5}));
    EXPECT_EQ(spread(pool({2, 2, 2, 2}), 1, 3), (std::vector{1, 1, 1}));
    EXPECT_EQ(spread(pool({2, 2}), 1, 3), (std::vector{2, 1})) << "no even way";
    EXPECT_EQ(spread(pool({8, 2}), 1, 10), (std::vector{8, 2}));
    EXPECT_EQ(spread(pool({8, 8}), 4, 3), (std::vector{2, 1}));
    EXPECT_TRUE(spread(pool({8, 8}), 4, 5).empty());
    EXPECT_TRUE(spread(pool({8}), 3, 1).empty()) << "3 does not divide the node's 8";
}

TEST(Summary, IsOneLineWithSitesAndTimes) {
    auto spec = job(gpt2(), 8);
    spec.model.tied_embeddings = false; // which would draw first and last stage to one site
    spec.tp = 1, spec.pp = 4, spec.dp = 2, spec.sites = {"s1", "s2"};
    auto plan = *make_plan(clique({site("s1", 2, 2), site("s2", 2, 2)}), spec);
    plan.iteration.seconds = 1.234, plan.iteration.tokens_per_second = 52'300, plan.iteration.bound = 1;
    plan.home_alone = 2.1;
    plan.stages[1].last_layer = 3, plan.stages[2].first_layer = 4;
    EXPECT_EQ(summary(plan),
              "pp=4 dp=2 tp=1 over s1 (2 nodes, 4 GPUs, layers 0-3), s2 (2 nodes, 4 GPUs, layers 4-11): "
              "1.23 s/iteration, 52k tokens/s, at most 23% above the bound; home alone 2.10 s");
    plan.iteration.bound = 0.1;
    EXPECT_NE(summary(plan).find(", 12 times the bound; "), std::string::npos) << summary(plan);
    plan.outcome = Outcome::infeasible, plan.reason = "why";
    EXPECT_EQ(summary(plan), "no plan: why");
    EXPECT_EQ(table(plan), "no plan: why\n");
}

TEST(Table, NamesSitesStagesTermsAndTheBottleneck) {
    const auto text = table(*make_plan(clique({site("s1", 2, 2), site("s2", 2, 2)}), job(llama_13b())));
    for (const auto *word : {"s1", "s2", "stage", "layers", "depth", "memory per GPU", "compute",
                             "bottleneck", "bound", "home alone", "spin"})
        EXPECT_NE(text.find(word), std::string::npos) << word << '\n' << text;
}

} // namespace
} // namespace spider::plan
