// SPDX-License-Identifier: GPL-3.0-or-later
// Plans are for what the trainer and Slurm can run.
#include "plan_fixture.h"

#include "model/trainer.h"
#include "plan/capacity.h"
#include "plan/planner.h"

#include <gtest/gtest.h>

namespace spider::plan {
namespace {

Plan planned(const Federation &federation, const JobSpec &spec) {
    auto plan = make_plan(federation, spec, {0.02, 1});
    EXPECT_TRUE(plan) << plan.error().what;
    return plan ? *plan : Plan{};
}

std::vector<int> layers_of(const Plan &plan) {
    std::vector<int> layers;
    for (const auto &stage : plan.stages)
        layers.push_back(stage.last_layer - stage.first_layer + 1);
    return layers;
}

// Sites of unlike speed: a free split of the layers is not even.
Federation unlike() { return clique({site("s1", 2, 8, "h100"), site("s2", 2, 8, "a100")}); }

TEST(Even, SplitsAreMadeForTrainersThatHaveNoFlagForOthers) {
    auto spec = job(llama_13b());
    spec.sites = {"s1", "s2"}, spec.tp = 8, spec.pp = 4, spec.dp = 1;
    spec.depth = depth_stages, spec.sends = Sends::async;
    const auto layers = layers_of(planned(unlike(), spec));
    EXPECT_NE(layers, (std::vector{10, 10, 10, 10})) << "else this test means nothing";
    for (const auto trainer : {Trainer::deepspeed, Trainer::nanotron}) {
        spec.trainer = trainer;
        EXPECT_EQ(layers_of(planned(unlike(), spec)), (std::vector{10, 10, 10, 10}))
            << static_cast<int>(trainer);
        for (const auto *planner : {"spin", "exhaustive"}) {
            const auto plan = make_plan(unlike(), spec, {0.02, 1}, planner);
            ASSERT_TRUE(plan) << plan.error().what;
            EXPECT_EQ(layers_of(*plan), (std::vector{10, 10, 10, 10})) << planner;
        }
    }
    spec.even_layers = false;
    EXPECT_EQ(layers_of(planned(unlike(), spec)), layers) << "the user's code can do it";
}

TEST(Even, APpThatDoesNotDivideTheLayersIsRefusedAtOnce) {
    auto spec = job(llama_13b());
    spec.pp = 3, spec.trainer = Trainer::deepspeed;
    const auto plan = make_plan(unlike(), spec, {0.02, 1});
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().what.find("pp=3 does not divide the model's 40 layers: trainer deepspeed"),
              std::string::npos)
        << plan.error().what;
    spec.pp.reset();
    const auto free = planned(unlike(), spec);
    EXPECT_EQ(40 % free.pp, 0);
}

// Memory for a few micro-batches at stage 0 is not enough for a schedule that keeps eight there.
TEST(Rigid, SchedulesAreNotPlannedWithFewerMicroBatchesThanTheyKeep) {
    const auto federation = clique({site("s1", 4, 1), site("s2", 4, 1)});
    auto spec = job(llama_13b());
    spec.pp = 8, spec.tp = 1, spec.dp = 1, spec.micro_batch = 4, spec.depth = depth_stages;
    auto plan = planned(federation, spec);
    ASSERT_EQ(plan.outcome, Outcome::planned) << plan.reason;
    ASSERT_LT(plan.stages[0].depth, 8) << "a plain trainer can be told less; else this test means nothing";
    spec.trainer = Trainer::megatron, spec.depth = depth_of_trainer;
    plan = planned(federation, spec);
    EXPECT_EQ(plan.outcome, Outcome::infeasible);
    EXPECT_NE(plan.reason.find("trainer megatron keeps P-i micro-batches in flight"), std::string::npos)
        << plan.reason;
    spec.micro_batch = 1; // now they fit
    plan = planned(federation, spec);
    ASSERT_EQ(plan.outcome, Outcome::planned) << plan.reason;
    for (int i = 0; i < plan.pp; ++i)
        EXPECT_EQ(plan.stages[static_cast<std::size_t>(i)].depth, std::min(plan.pp - i, plan.micro_batches))
            << i;
}

TEST(Torchrun, PlansHaveConsecutiveRanksOnEachNode) {
    const auto federation = clique({site("s1", 1, 2), site("s2", 1, 2)});
    auto spec =
        job(gpt2(), 4096); // so many activations that pipelines stay inside a site: 0.0 and 1.0 on a node
    spec.tp = 1, spec.pp = 2, spec.dp = 2, spec.sites = {"s1", "s2"};
    const auto gaps = [](const Plan &plan) {
        int count = 0;
        for (const auto &part : plan.parts)
            for (const auto &node : part.nodes)
                for (std::size_t i = 1; i < node.size(); ++i)
                    count += rank_of(plan, node[i], 0) != rank_of(plan, node[i - 1], 0) + 1;
        return count;
    };
    EXPECT_GT(gaps(planned(federation, spec)), 0) << "else this test means nothing";
    spec.launcher = Launcher::torchrun;
    const auto plan = planned(federation, spec);
    ASSERT_EQ(plan.outcome, Outcome::planned) << plan.reason;
    EXPECT_EQ(plan.launcher, Launcher::torchrun);
    EXPECT_EQ(gaps(plan), 0);
}

TEST(Torchrun, LimitsOfTasksAreLimitsOfNodes) {
    auto spec = job(llama_13b());
    spec.launcher = Launcher::torchrun;
    spec.limits = {.max_nodes = 0, .max_gpus_per_node = 0, .max_tasks = 2, .max_tasks_per_node = 1};
    EXPECT_EQ(limits_of(spec).max_nodes, 2);
    const auto plan = planned(clique({site("s1", 4, 8), site("s2", 4, 8)}), spec);
    ASSERT_EQ(plan.outcome, Outcome::planned) << plan.reason;
    std::size_t fullest = 0;
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            fullest = std::max(fullest, node.size() * static_cast<std::size_t>(plan.tp));
    EXPECT_EQ(fullest, 8u) << "a task for a node of eight GPUs";
    for (const auto &part : plan.parts)
        EXPECT_LE(part.nodes.size(), 2u);
}

// Slurm gives each node of a job the same.
TEST(Slots, OfUnequalNodesAreThoseThatOneRequestGets) {
    Pool pool{.name = "s1", .nodes = {{8, 8}, {2, 2}}};
    EXPECT_EQ(slots_in(pool, 1), 8);
    EXPECT_TRUE(spread(pool, 1, 10).empty());
    EXPECT_EQ(spread(pool, 1, 4), (std::vector{4}));
    pool.nodes = {{3, 3}, {3, 3}, {1, 1}};
    EXPECT_EQ(slots_in(pool, 1), 6);
    EXPECT_EQ(spread(pool, 1, 5), (std::vector{3, 2})) << "both are asked for three";
    pool.nodes = {{8, 8}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}};
    EXPECT_EQ(slots_in(pool, 1), 12);
    EXPECT_EQ(spread(pool, 1, 12), (std::vector{2, 2, 2, 2, 2, 2}));
}

// accelerate#1291: 2 + 3 + 3 GPUs with tp=2 hung.
TEST(Slots, ATensorSizeThatTheNodesDoNotHaveIsNamedWithTheSite) {
    const auto federation = clique({site("a", 1, 2), site("b", 2, 3)});
    auto spec = job(gpt2(), 64, "a");
    spec.tp = 2, spec.sites = {"a", "b"};
    const auto plan = planned(federation, spec);
    EXPECT_EQ(plan.outcome, Outcome::infeasible);
    EXPECT_NE(plan.reason.find("b: tp=2 does not divide the 3 GPUs of a node"), std::string::npos)
        << plan.reason;
    spec.sites.clear(), spec.tp = 4;
    EXPECT_NE(planned(federation, spec).reason.find("a: tp=4 is more than the 2 GPUs of a node"),
              std::string::npos);
}

TEST(Sites, MayShareAStage) {
    auto spec = job(gpt2());
    spec.tp = 1, spec.pp = 2, spec.dp = 2;
    spec.sites = {"s1", "s2", "s3", "s4"};
    const auto federation = clique({site("s1", 1, 1), site("s2", 1, 1), site("s3", 1, 1), site("s4", 1, 1)});
    const auto plan = planned(federation, spec);
    ASSERT_EQ(plan.outcome, Outcome::planned) << plan.reason;
    EXPECT_EQ(plan.parts.size(), 4u);
    spec.dp = 1;
    const auto few = make_plan(federation, spec, {0.02, 1});
    ASSERT_FALSE(few);
    EXPECT_NE(few.error().what.find("without a stage"), std::string::npos);
}

} // namespace
} // namespace spider::plan
