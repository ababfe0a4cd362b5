// SPDX-License-Identifier: GPL-3.0-or-later
// A plan in the words of each trainer. What the trainers' own code says to these words: tests/oracle.
#include "random_plans.h"

#include "launch/crossing.h"
#include "launch/environment.h"
#include "launch/render.h"
#include "model/json.h"
#include "plan/pipeline.h"
#include "plan/schedule.h"
#include "util/schedule.h"
#include "util/text.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace spider::launch {
namespace {

// Two pipelines: s1 has stage 0 and one member of stage 1, s2 the rest. TP 2.
Plan example() {
    Plan plan{.outcome = Outcome::planned, .reason = {}};
    plan.tp = 2, plan.pp = 3, plan.dp = 2, plan.micro_batch = 2, plan.micro_batches = 8, plan.sequence = 4096;
    plan.stages = {{.first_layer = 0, .last_layer = 3, .depth = 3, .ring = {}, .faster = {}},
                   {.first_layer = 4, .last_layer = 4, .depth = 2, .ring = {}, .faster = {}},
                   {.first_layer = 5, .last_layer = 7, .depth = 1, .ring = {}, .faster = {}}};
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}}}}, {"s2", "a100", {{{1, 1}, {2, 0}}, {{2, 1}}}}};
    return plan;
}

std::string value_of(const Launch &launch, const std::string &option) {
    for (std::size_t i = 0; i + 1 < launch.arguments.size(); ++i)
        if (launch.arguments[i] == option) return launch.arguments[i + 1];
    return {};
}

// Another reader of Megatron's letters: layers in front of each '|'.
std::vector<int> layers_of_layout(const std::string &layout) {
    std::vector<int> layers;
    for (const auto &stage : util::split(layout, '|'))
        layers.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 't')));
    return layers;
}

plan::Schedule schedule_of(const std::string &csv, int micro_batches) {
    plan::Schedule schedule{.micro_batches = micro_batches, .devices = {}};
    for (const auto &line : util::split(csv, '\n')) {
        if (line.empty()) continue;
        auto &device = schedule.devices.emplace_back();
        for (const auto &word : util::split(line, ',')) {
            const auto kind = word.find_first_of("FB");
            EXPECT_EQ(word.substr(0, kind), std::to_string(schedule.devices.size() - 1)) << word;
            device.push_back(
                {word[kind] == 'F' ? plan::Operation::Kind::forward : plan::Operation::Kind::backward, 0,
                 static_cast<int>(util::to_int(word.substr(kind + 1)).value())});
        }
    }
    return schedule;
}

std::vector<int> depths_of(const Plan &plan) {
    std::vector<int> depths;
    for (const auto &stage : plan.stages)
        depths.push_back(stage.depth);
    return depths;
}

TEST(Megatron, IsToldSizesLayoutOptimizerAndNetworks) {
    const auto launch = render(example(), Trainer::megatron).value();
    EXPECT_EQ(util::join(launch.arguments, " "),
              "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 --micro-batch-size 2 "
              "--global-batch-size 32 --seq-length 4096 --pipeline-model-parallel-layout Etttt|t|tttL "
              "--use-distributed-optimizer --nccl-communicator-config-path @nccl.yaml@");
    ASSERT_EQ(launch.files.size(), 1u);
    EXPECT_EQ(launch.files[0].name, "nccl.yaml");
    for (const auto *group : {"pp:", "embd:", "dp:", "mp:"})
        EXPECT_NE(("\n" + launch.files[0].text).find(std::string("\n") + group + "\n  net_name: socket\n"),
                  std::string::npos)
            << group;
    EXPECT_EQ(launch.files[0].text.find("\ntp:"), std::string::npos) << "tensor groups stay inside a node";
}

TEST(Megatron, OneSiteNeedsNoNetworkFile) {
    auto plan = example();
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}}}};
    const auto launch = render(plan, Trainer::megatron).value();
    EXPECT_TRUE(launch.files.empty());
    EXPECT_EQ(value_of(launch, "--nccl-communicator-config-path"), "");
}

TEST(Megatron, OnlyGroupsThatCrossSitesUseSockets) {
    auto plan = example(); // both pipelines cross, no stage does
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}}}, {"s2", "a100", {{{1, 0}, {1, 1}, {2, 0}, {2, 1}}}}};
    const auto text = render(plan, Trainer::megatron).value().files.at(0).text;
    EXPECT_NE(text.find("pp:\n"), std::string::npos);
    EXPECT_EQ(text.find("\ndp:"), std::string::npos);
}

TEST(Megatron, RecomputesAsPlanned) {
    auto plan = example();
    plan.recompute = Recompute::full;
    const auto launch = render(plan, Trainer::megatron).value();
    EXPECT_EQ(value_of(launch, "--recompute-granularity"), "full");
    EXPECT_EQ(value_of(launch, "--recompute-method"), "uniform");
    EXPECT_EQ(value_of(launch, "--recompute-num-layers"), "1");
    plan.recompute = Recompute::selective;
    EXPECT_EQ(value_of(render(plan, Trainer::megatron).value(), "--recompute-granularity"), "selective");
}

TEST(Megatron, TheLayoutHasThePlansLayersInAThousandPlans) {
    RandomPlans plans(1);
    for (int n = 0; n < 1000; ++n) {
        const auto plan = plans.plan(Depths::usual);
        const auto launch = render(plan, Trainer::megatron);
        ASSERT_TRUE(launch) << launch.error().what;
        const auto layout = value_of(*launch, "--pipeline-model-parallel-layout");
        if (plan.pp == 1) {
            EXPECT_EQ(layout, "");
            continue;
        }
        std::vector<int> wanted;
        for (const auto &stage : plan.stages)
            wanted.push_back(stage.last_layer - stage.first_layer + 1);
        EXPECT_EQ(layers_of_layout(layout), wanted) << layout;
        EXPECT_EQ(layout.front(), 'E');
        EXPECT_EQ(layout.back(), 'L');
    }
}

// In flight at a device of the interleaved schedule, in chunks: forwards before the first backward and the
// one that follows, as plan::interleaved() - another reading of Megatron's code - has them.
TEST(Megatron, DeeperPlansAreCarriedByTheInterleavedSchedule) {
    RandomPlans plans(2);
    int carried = 0, refused = 0;
    for (int n = 0; n < 1000; ++n) {
        const auto plan = plans.plan(Depths::deeper);
        const auto launch = render(plan, Trainer::megatron);
        if (!launch) {
            ++refused;
            EXPECT_NE(launch.error().what.find("depth=stages"), std::string::npos) << launch.error().what;
            continue;
        }
        const auto group = value_of(*launch, "--microbatch-group-size-per-virtual-pipeline-stage");
        if (group.empty()) continue;
        const auto layers = layers_of_layout(value_of(*launch, "--pipeline-model-parallel-layout"));
        ASSERT_EQ(layers.size(), 2 * plan.stages.size());
        const int size = static_cast<int>(util::to_int(group).value()), rest = plan.micro_batches % size;
        EXPECT_GE(size, plan.pp);
        EXPECT_LE(size, plan.micro_batches);
        EXPECT_TRUE(rest == 0 || rest >= plan.pp) << "Megatron-LM refuses it";
        for (std::size_t i = 0; i < plan.stages.size(); ++i)
            EXPECT_EQ(layers[i] + layers[i + plan.stages.size()],
                      plan.stages[i].last_layer - plan.stages[i].first_layer + 1);
        ++carried;
        if (rest != 0) continue;
        const auto schedule = plan::interleaved(plan.pp, 2, plan.micro_batches, size);
        ASSERT_TRUE(schedule) << schedule.error().what;
        for (std::size_t i = 0; i < plan.stages.size(); ++i) {
            const auto &device = schedule->devices[i];
            const auto first =
                std::find_if(device.begin(), device.end(), [](const plan::Operation &operation) {
                    return operation.kind == plan::Operation::Kind::backward;
                });
            EXPECT_GE(first - device.begin(), std::min(2 * plan.stages[i].depth, 2 * plan.micro_batches));
        }
    }
    EXPECT_GT(carried, 100);
    EXPECT_GT(refused, 10);
}

TEST(Megatron, ADepthThatMemoryHasCappedIsRefused) {
    auto plan = example();
    plan.stages[0].depth = 2;
    const auto launch = render(plan, Trainer::megatron);
    ASSERT_FALSE(launch);
    EXPECT_NE(launch.error().what.find("2 at stage 0"), std::string::npos) << launch.error().what;
}

TEST(Torchtitan, IsToldDegreesModulesAndSchedule) {
    const auto launch = render(example(), Trainer::torchtitan).value();
    EXPECT_EQ(util::join(launch.arguments, " "),
              "--parallelism.pipeline_parallel_degree 3 --parallelism.tensor_parallel_degree 2 "
              "--parallelism.data_parallel_replicate_degree 2 --parallelism.data_parallel_shard_degree 1 "
              "--parallelism.context_parallel_degree 1 --training.num_tokens_per_microbatch_per_dp_rank 8192 "
              "--training.max_context_length 4096 "
              "--parallelism.num_pp_microbatches 8 --parallelism.pipeline_parallel_schedule 1F1B "
              "--parallelism.pipeline_parallel_schedule_csv @schedule.csv@ "
              "--parallelism.module_fqns_per_model_part "
              "tok_embeddings,layers.0,layers.1,layers.2,layers.3 layers.4 "
              "layers.5,layers.6,layers.7,norm,lm_head");
    EXPECT_FALSE(launch.notes.empty()) << "replicated between sites";
}

TEST(Torchtitan, ShardsAmongTheMembersOfASite) {
    auto plan = example();
    plan.pp = 1, plan.dp = 4, plan.stages.resize(1);
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}}}, {"s2", "h100", {{{0, 2}, {0, 3}}}}};
    auto launch = render(plan, Trainer::torchtitan).value();
    EXPECT_EQ(value_of(launch, "--parallelism.data_parallel_replicate_degree"), "2");
    EXPECT_EQ(value_of(launch, "--parallelism.data_parallel_shard_degree"), "2");
    EXPECT_EQ(value_of(launch, "--training.num_tokens_per_train_step"), std::to_string(2 * 8 * 4 * 4096));
    EXPECT_TRUE(launch.files.empty()) << "no pipeline, no schedule";
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}, {0, 2}}}}, {"s2", "h100", {{{0, 3}}}}};
    launch = render(plan, Trainer::torchtitan).value();
    EXPECT_EQ(value_of(launch, "--parallelism.data_parallel_shard_degree"), "1")
        << "3 and 1 have no blocks of two";
}

// plan::run() executes the schedule operation by operation: an error where one is missing, twice there or
// would wait for ever. stage_ends() is the recurrence that the plan's time comes from.
TEST(Torchtitan, EveryScheduleRunsAndTakesThePlannedTime) {
    RandomPlans plans(3);
    for (int n = 0; n < 1000; ++n) {
        const auto plan = plans.plan(Depths::deeper);
        const auto launch = render(plan, Trainer::torchtitan).value();
        if (plan.pp == 1) continue;
        ASSERT_EQ(launch.files.at(0).name, schedule_file);
        const auto schedule = schedule_of(launch.files[0].text, plan.micro_batches);
        ASSERT_EQ(schedule.devices.size(), plan.stages.size());
        plan::Pipeline pipeline;
        std::vector<std::vector<plan::StageTime>> times;
        for (int i = 0; i < plan.pp; ++i) {
            pipeline.stages.push_back({0.001 * plans.between(1, 50), 0.001 * plans.between(1, 90)});
            times.push_back({pipeline.stages.back()});
            if (i > 0)
                pipeline.boundaries.push_back({0.001 * plans.between(0, 40), 0.001 * plans.between(0, 20),
                                               0.001 * plans.between(0, 40), 0.001 * plans.between(0, 20)});
        }
        const auto ran = plan::run(schedule, times, pipeline.boundaries, Sends::async);
        ASSERT_TRUE(ran) << ran.error().what;
        const auto planned = plan::stage_ends(pipeline, depths_of(plan), plan.micro_batches);
        for (std::size_t i = 0; i < planned.size(); ++i)
            EXPECT_NEAR((*ran)[i], planned[i], 1e-9 * planned[i]) << n;
    }
}

TEST(Schedule, OfTwoStagesByHand) {
    EXPECT_EQ(util::schedule_csv(std::vector{3, 1}, 4),
              "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
    EXPECT_EQ(util::schedule_csv(std::vector{9}, 1), "0F0,0B0\n");
}

TEST(DeepSpeed, GetsTheUsualNamesAndAStatementAboutTheBounds) {
    auto plan = example();
    const auto uneven = render(plan, Trainer::deepspeed).value();
    EXPECT_EQ(util::join(uneven.arguments, " "),
              "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 "
              "--micro-batch-size 2 --global-batch-size 32 --seq-length 4096");
    ASSERT_EQ(uneven.notes.size(), 1u);
    EXPECT_NE(uneven.notes[0].find("4,1,3"), std::string::npos) << uneven.notes[0];
    plan.stages[0].last_layer = 1, plan.stages[1] = {2, 3, 2, 0, 0, 0, 0, {}, {}},
    plan.stages[2].first_layer = 4;
    plan.stages[2].last_layer = 5;
    EXPECT_NE(render(plan, Trainer::deepspeed).value().notes.at(0).find("type:CLASS"), std::string::npos);
    plan.stages[0].depth = 5;
    EXPECT_FALSE(render(plan, Trainer::deepspeed));
}

TEST(Nanotron, CannotBeToldAnUnevenSplit) {
    const auto launch = render(example(), Trainer::nanotron);
    ASSERT_FALSE(launch);
    EXPECT_NE(launch.error().what.find("layers=even"), std::string::npos);
}

// nanotron: LOCAL_RANK must be the place of RANK among as many as this node has.
TEST(Nanotron, WantsTheSameNumberOfConsecutiveRanksOnEachNode) {
    auto plan = example();
    plan.stages[1] = {4, 7, 2, 0, 0, 0, 0, {}, {}}, plan.stages[2] = {8, 11, 1, 0, 0, 0, 0, {}, {}};
    const auto uneven = render(plan, Trainer::nanotron); // nodes of 4, 2, 4 and 2 ranks
    ASSERT_FALSE(uneven);
    EXPECT_NE(uneven.error().what.find("same number"), std::string::npos) << uneven.error().what;
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}}}, {"s2", "a100", {{{2, 0}, {2, 1}}}}};
    const auto launch = render(plan, Trainer::nanotron);
    ASSERT_TRUE(launch) << launch.error().what;
    EXPECT_NE(launch->notes.at(0).find("batch_accumulation_per_replica: 8"), std::string::npos);
    std::swap(plan.parts[0].nodes[0][1], plan.parts[0].nodes[1][0]);
    EXPECT_FALSE(render(plan, Trainer::nanotron)) << "0.0 and 1.0 are no neighbours";
    std::swap(plan.parts[0].nodes[0][1], plan.parts[0].nodes[1][0]);
    plan.tp = 1; // six ranks
    EXPECT_FALSE(render(plan, Trainer::nanotron)) << "it would take them all for one node's";
}

TEST(Arguments, CanBeExpandedUnquotedByAShell) {
    RandomPlans plans(4);
    for (int n = 0; n < 200; ++n) {
        const auto plan = plans.plan(Depths::usual, true);
        for (const auto trainer :
             {Trainer::megatron, Trainer::torchtitan, Trainer::deepspeed, Trainer::nanotron}) {
            const auto launch = render(plan, trainer);
            if (!launch) continue; // nanotron takes few of them
            for (const auto &word : launch->arguments) {
                EXPECT_FALSE(word.empty());
                EXPECT_EQ(word.find_first_of(" \t\n*?[]{}()'\"\\$`~#&;<>!"), std::string::npos) << word;
            }
        }
    }
}

TEST(Nodes, AreNumberedInTheOrderOfTheirRanks) {
    const auto plan = example();
    std::map<std::string, std::string> home, other;
    for (const auto &[name, value] : carriers(plan, plan.parts[0], "s1-1", 1))
        home[name] = value;
    for (const auto &[name, value] : carriers(plan, plan.parts[1], "s1-1", 1))
        other[name] = value;
    EXPECT_EQ(home["SLURM_SPIDERFLOW_NODE_RANKS"], "0,1");  // ranks 0-3; 4-5
    EXPECT_EQ(other["SLURM_SPIDERFLOW_NODE_RANKS"], "2,3"); // 6-7 and 8-9; 10-11
    EXPECT_EQ(other["SLURM_SPIDERFLOW_MASTER_SITE"], "s1");
    auto moved = plan; // rank 0 is not at the first part
    std::swap(moved.parts[0].nodes[0], moved.parts[1].nodes[0]);
    for (const auto &[name, value] : carriers(moved, moved.parts[0], "s1-1", 1))
        home[name] = value;
    EXPECT_EQ(home["SLURM_SPIDERFLOW_NODE_RANKS"], "2,1");
    EXPECT_EQ(home["SLURM_SPIDERFLOW_MASTER_SITE"], "s2");
}

TEST(Torchrun, TakesOneTaskForEachNodeAndConsecutiveRanksOnly) {
    auto plan = example();
    plan.trainer = Trainer::torchrun, plan.launcher = Launcher::torchrun;
    EXPECT_TRUE(can_launch(plan)) << "1.1 and 2.0 have the ranks 6 to 9";
    const auto size = size_of(plan, plan.parts[1]);
    EXPECT_EQ(size.nodes, 2);
    EXPECT_EQ(size.tasks, 2);
    EXPECT_EQ(size.tasks_per_node, 1);
    EXPECT_EQ(size.gpus_per_node, 4);
    std::swap(plan.parts[1].nodes[0][0], plan.parts[1].nodes[1][0]);
    const auto can = can_launch(plan);
    ASSERT_FALSE(can);
    EXPECT_NE(can.error().what.find("launcher=srun"), std::string::npos);
}

TEST(PlanText, LosesItsBoundariesBeforeItIsLeftOut) {
    auto plan = example();
    for (int i = 0; i < 200; ++i)
        plan.passages.push_back({0, 0, 0.01, 0.02, 0.01, 0.02});
    const auto whole = plan_text(plan, 1u << 20), part = plan_text(plan, 8000);
    EXPECT_EQ(model::plan_from_json(*model::parse_json(whole)).value(), plan);
    ASSERT_FALSE(part.empty());
    EXPECT_TRUE(model::plan_from_json(*model::parse_json(part)).value().passages.empty());
    EXPECT_EQ(plan_text(plan, 100), "");
}

// spiderflow launch reads plans from files.
TEST(CanLaunch, APlanThatIsNotWholeIsOneLineAndNeverACrash) {
    const std::vector<std::pair<void (*)(Plan &), const char *>> broken{
        {[](Plan &plan) { plan.parts[0].nodes[0][0].stage = 7; }, "slot 7.0"},
        {[](Plan &plan) { plan.parts[0].nodes[0][0].dp = 1; }, "slot 0.1"},
        {[](Plan &plan) { plan.parts[0].nodes[0].clear(); }, "a node without a slot"},
        {[](Plan &plan) { plan.parts.clear(); }, "0 slots, pp x dp is 6"},
        {[](Plan &plan) { plan.stages.pop_back(); }, "2 stages, pp is 3"},
        {[](Plan &plan) { plan.stages[1].first_layer = 9; }, "layer after layer"},
        {[](Plan &plan) { plan.stages[2].last_layer = 2'000'000'000; }, "layer after layer"},
        {[](Plan &plan) { plan.pp = plan.dp = 2'000'000'000; }, "sizes that no job has"},
        {[](Plan &plan) { plan.micro_batches = 2'000'000'000; }, "a batch that no job has"},
        {[](Plan &plan) { plan.micro_batch = 1'000'000, plan.micro_batches = 1, plan.sequence = 1'000'000; },
         "a batch that no job has"},
    };
    for (const auto &[damage, why] : broken)
        for (const auto trainer : {Trainer::plain, Trainer::megatron, Trainer::torchtitan, Trainer::deepspeed,
                                   Trainer::nanotron, Trainer::torchrun}) {
            auto plan = example();
            damage(plan);
            plan.trainer = trainer;
            const auto can = can_launch(plan);
            ASSERT_FALSE(can) << why;
            EXPECT_NE(can.error().what.find(why), std::string::npos) << can.error().what;
        }
    auto plan = example();
    plan.trainer = Trainer::torchtitan, plan.micro_batches = 1'000'000;
    EXPECT_NE(can_launch(plan).error().what.find("6000000 operations"), std::string::npos);
}

TEST(CanLaunch, APlanTooLargeForAnEnvironmentIsRefusedWithTheVariable) {
    auto plan = example();
    plan.trainer = Trainer::plain;
    EXPECT_TRUE(can_launch(plan));
    plan.dp = 20000;
    auto &node = plan.parts[0].nodes[0];
    for (int i = 0; i < plan.pp; ++i)
        for (int d = 2; d < plan.dp; ++d)
            node.push_back({i, d});
    const auto can = can_launch(plan);
    ASSERT_FALSE(can);
    EXPECT_NE(can.error().what.find("SLURM_SPIDERFLOW_SLOTS"), std::string::npos) << can.error().what;
}

} // namespace
} // namespace spider::launch
