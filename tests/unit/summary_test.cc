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
    EXPECT_TRUE(spread(pool({8, 2}), 1, 10).empty()) << "Slurm would ask both for eight";
    EXPECT_EQ(spread(pool({8, 8}), 4, 3), (std::vector{2, 1}));
    EXPECT_TRUE(spread(pool({8, 8}), 4, 5).empty());
    EXPECT_TRUE(spread(pool({8}), 3, 1).empty()) << "3 does not divide the node's 8";
}

TEST(Words, WaitingAndRangesAreShort) {
    EXPECT_EQ(duration_words(45), "45 s");
    EXPECT_EQ(duration_words(1800), "30 min");
    EXPECT_EQ(duration_words(7200), "2 h");
    EXPECT_EQ(duration_words(8100), "2 h 15 min");
    EXPECT_EQ(duration_words(3 * 86400 + 3600), "3 d 1 h");
    EXPECT_EQ(ranges({0, 1, 2, 3, 7}), "0-3,7");
    EXPECT_EQ(ranges({5}), "5");
    EXPECT_EQ(some_of({"a", "b", "c"}, 2), "a, b, c") << "one more is no longer than saying so";
    EXPECT_EQ(some_of({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(Words, TheGapIsSaidAsItIsAndNeverTooSmall) {
    const auto said = [](Seconds seconds, Seconds bound) {
        return gap_words({.seconds = seconds, .bound = bound, .terms = {}, .bottleneck = {}});
    };
    EXPECT_EQ(said(48.2, 36.5), "no plan can be faster than 36.50 s: this one is at most 33% above it");
    EXPECT_EQ(said(1.201, 1), "no plan can be faster than 1.00 s: this one is at most 21% above it");
    EXPECT_EQ(said(4.2, 1), "no plan can be faster than 1.00 s: this one is at most 4.2 times it");
    EXPECT_EQ(said(172193, 0.1), "the bound says little here: 0.10 s");
    EXPECT_EQ(said(2, 2), "no plan can be faster: this one is as fast as the bound");
    EXPECT_EQ(said(2, 0), "no bound");
}

TEST(Summary, IsOneLineWithSitesAndTimes) {
    Plan plan{.outcome = Outcome::planned, .reason = {}, .tp = 1, .pp = 4, .dp = 2, .family = {}};
    plan.stages = {{0, 1}, {2, 3}, {4, 7}, {8, 11}};
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}}},
                  {"s2", "h100", {{{2, 0}, {2, 1}}, {{3, 0}, {3, 1}}}}};
    plan.iteration.seconds = 1.234, plan.iteration.tokens_per_second = 52'300, plan.iteration.bound = 1;
    plan.home_alone = 2.1;
    EXPECT_EQ(summary(plan),
              "pp=4 dp=2 tp=1 over s1 (2 nodes, 4 GPUs, layers 0-3), s2 (2 nodes, 4 GPUs, layers 4-11): "
              "1.23 s/iteration, 52k tokens/s, at most 24% above the bound; home alone 2.10 s");
    plan.iteration.bound = 0.1, plan.start = 7200;
    EXPECT_NE(summary(plan).find(", the bound says little here: 0.10 s; starts in 2 h; home alone"),
              std::string::npos)
        << summary(plan);
    plan.outcome = Outcome::infeasible, plan.reason = "why";
    EXPECT_EQ(summary(plan), "no plan: why");
    EXPECT_EQ(table(plan), "no plan: why\n");
}

TEST(Summary, SaysWhichPipelinesAreWhereWhenTheyAreNotTogether) {
    Plan plan{.outcome = Outcome::planned, .reason = {}, .tp = 8, .pp = 2, .dp = 4, .family = {}};
    plan.stages = {{0, 9}, {10, 39}};
    plan.parts = {{"s1", "h100", {{{0, 0}}, {{0, 1}}, {{1, 0}}, {{1, 1}}}},
                  {"s2", "h100", {{{0, 2}}, {{1, 2}}}},
                  {"s3", "h100", {{{0, 3}}}},
                  {"s4", "h100", {{{1, 3}}}}};
    plan.iteration.seconds = 1, plan.iteration.bound = 1;
    EXPECT_NE(summary(plan).find("s1 (4 nodes, 32 GPUs, layers 0-39, pipelines 0-1), "
                                 "s2 (2 nodes, 16 GPUs, layers 0-39, pipeline 2), "
                                 "s3 (1 node, 8 GPUs, layers 0-9, pipeline 3), "
                                 "s4 (1 node, 8 GPUs, layers 10-39, pipeline 3): 1.00 s/iteration"),
              std::string::npos)
        << summary(plan);
    for (int i = 0; i < 60; ++i)
        plan.parts.push_back({"more" + std::to_string(i), "h100", {{{1, 3}}}});
    EXPECT_EQ(summary(plan).find('\n'), std::string::npos);
    EXPECT_NE(summary(plan).find(" and 56 more: "), std::string::npos) << summary(plan);
}

TEST(Table, NamesSitesStagesTermsAndTheBottleneck) {
    const auto text = table(*make_plan(clique({site("s1", 2, 2), site("s2", 2, 2)}), job(llama_13b())));
    for (const auto *word : {"s1", "s2", "stage", "layers", "depth", "memory per GPU", "compute",
                             "bottleneck", "bound", "home alone", "spin", "all-reduce", "other ways"})
        EXPECT_NE(text.find(word), std::string::npos) << word << '\n' << text;
}

TEST(Table, ListsTheSitesOfAStageAndWhatElseThereWas) {
    Plan plan{.outcome = Outcome::planned,
              .reason = "s1+s2: why",
              .tp = 8,
              .pp = 1,
              .dp = 2,
              .family = "data parallel over sites"};
    plan.stages = {{.first_layer = 0,
                    .last_layer = 39,
                    .memory = 39e9,
                    .gradient = 3,
                    .ring = {"s1", "s2"},
                    .faster = {}}};
    plan.parts = {{"s1", "h100", {{{0, 0}}}}, {"s2", "a100-40", {{{0, 1}}}}};
    plan.iteration.seconds = 10, plan.iteration.bound = 8;
    plan.iteration.bottleneck = {"gradients", "", ""};
    plan.alternatives = {{"one site alone", 12, 0, {"s1"}}, {"starting now", 20, 0, {"s2"}}};
    plan.start = 7200;
    const auto text = table(plan);
    EXPECT_TRUE(text.starts_with("pp=1 dp=2 tp=8, data parallel over sites, ")) << text;
    for (const auto *line :
         {"39.0 of 40.0 GB  s1, s2\n", "gap         20%\n", "bottleneck  all-reduce of stage 0 at s1, s2\n",
          "one site alone    12.00 s   1.20 x    now  s1\n",
          "in 2 h, when all its GPUs are free; starting now, an iteration would take 12.00 s\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line << '\n' << text;
    // The federation knows better what its GPUs have.
    auto big = site("s2", 1, 8, "a100-40");
    big.classes[0].gpu.memory = 48e9;
    const auto federation = clique({site("s1", 1, 8), big});
    EXPECT_NE(table(plan, &federation).find("39.0 of 48.0 GB"), std::string::npos);
}

TEST(Table, OfALongPlanEnds) {
    Plan plan{.outcome = Outcome::planned, .reason = {}, .pp = 80, .family = {}};
    for (int i = 0; i < 80; ++i) {
        plan.stages.push_back({i, i});
        plan.parts.push_back({"s" + std::to_string(i), "h100", {{{i, 0}}}});
    }
    plan.iteration.seconds = 1;
    const auto text = table(plan);
    EXPECT_NE(text.find("… 20 more stages like these\n"), std::string::npos) << text;
    EXPECT_NE(text.find("… 20 more sites like these\n"), std::string::npos);
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 150);
}

} // namespace
} // namespace spider::plan
