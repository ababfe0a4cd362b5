// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/environment.h"
#include "launch/part_script.h"
#include "util/process.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

namespace spider::launch {
namespace {

// Two stages of two at s1 (two nodes), one stage of two at s2 (one node), TP 2.
Plan example() {
    Plan plan;
    plan.outcome = Outcome::planned;
    plan.tp = 2, plan.pp = 3, plan.dp = 2;
    plan.stages = {{.first_layer = 0, .last_layer = 3},
                   {.first_layer = 4, .last_layer = 4},
                   {.first_layer = 5, .last_layer = 7}};
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}}}, {"s2", "a100", {{{2, 0}, {2, 1}}}}};
    return plan;
}

TEST(Carriers, SayAllThatTheTasksOfAPartMustKnow) {
    auto plan = example();
    plan.trainer = Trainer::deepspeed, plan.micro_batches = 5, plan.sequence = 64;
    plan.stages[0].depth = 3, plan.stages[1].depth = 2;
    auto list = carriers(plan, plan.parts[0], "s1-17", 1);
    ASSERT_EQ(list.back().first, "SLURM_SPIDERFLOW_FILE_1");
    EXPECT_TRUE(list.back().second.starts_with("plan.json {"));
    list.pop_back();
    const Environment expected{
        {"SLURM_SPIDERFLOW_JOB", "s1-17"},
        {"SLURM_SPIDERFLOW_ATTEMPT", "1"},
        {"SLURM_SPIDERFLOW_SITE", "s1"},
        {"SLURM_SPIDERFLOW_WORLD", "12"},
        {"SLURM_SPIDERFLOW_TP", "2"},
        {"SLURM_SPIDERFLOW_PP", "3"},
        {"SLURM_SPIDERFLOW_DP", "2"},
        {"SLURM_SPIDERFLOW_SLOTS", "0.0,0.1/1.0,1.1"},
        {"SLURM_SPIDERFLOW_LAYERS", "0-3,4-4,5-7"},
        {"SLURM_SPIDERFLOW_DEPTHS", "3,2,1"},
        {"SLURM_SPIDERFLOW_MICROBATCH", "1"},
        {"SLURM_SPIDERFLOW_MICROBATCHES", "5"},
        {"SLURM_SPIDERFLOW_RECOMPUTE", "none"},
        {"SLURM_SPIDERFLOW_NODE_RANKS", "0,1"},
        {"SLURM_SPIDERFLOW_NNODES", "3"},
        {"SLURM_SPIDERFLOW_MASTER_SITE", "s1"},
        {"SLURM_SPIDERFLOW_TRAINER", "deepspeed"},
        {"SLURM_SPIDERFLOW_LAUNCHER", "srun"},
        {"SLURM_SPIDERFLOW_ARGS", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 "
                                  "--micro-batch-size 1 --global-batch-size 10 --seq-length 64"},
    };
    EXPECT_EQ(list, expected);
}

TEST(Carriers, OfAnotherPartHaveItsOwnNodes) {
    const auto plan = example();
    const auto list = carriers(plan, plan.parts[1], "s1-17", 3);
    const std::map<std::string, std::string> values(list.begin(), list.end());
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_NODE_RANKS"), "2");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_NNODES"), "3");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_SLOTS"), "2.0,2.1");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_SITE"), "s2");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_ATTEMPT"), "3");
}

TEST(Size, CountsTasksPerGpuOnTheFullestNode) {
    auto plan = example();
    auto size = size_of(plan, plan.parts[0]);
    EXPECT_EQ(size.nodes, 2);
    EXPECT_EQ(size.tasks, 8);
    EXPECT_EQ(size.tasks_per_node, 4);
    EXPECT_EQ(size.gpus_per_node, 4);
    plan.parts[0].nodes = {{{0, 0}}, {{0, 1}, {1, 0}, {1, 1}}};
    size = size_of(plan, plan.parts[0]);
    EXPECT_EQ(size.tasks, 8);
    EXPECT_EQ(size.tasks_per_node, 6);
    EXPECT_EQ(size.gpus_per_node, 6);
}

// Run by real interpreters: the guard stops the script without the plugin's variable, and is out of the way
// with it.
class Guard : public testing::Test {
  protected:
    std::string path = testing::TempDir() + "part" + std::to_string(::getpid());
    ~Guard() override { std::filesystem::remove(path); }

    util::Finished run(const std::string &script, const std::string &variable) const {
        auto guarded = guarded_script(script, {"one", "it's \"two\" $HOME", ""}, "lyra");
        EXPECT_TRUE(guarded);
        std::ofstream(path) << *guarded;
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        auto done = util::run({.argv = {"/usr/bin/env", variable, path}});
        EXPECT_TRUE(done) << done.error().what;
        return *done;
    }
};

TEST_F(Guard, StopsEveryKindOfScriptWithoutThePlugin) {
    for (const auto *script :
         {"#!/bin/bash\necho ran\n", "#!/bin/sh\necho ran\n", "#!/usr/bin/env bash\necho ran\n",
          "#!/usr/bin/perl\nprint \"ran\\n\";\n", "#!/bin/bash -l\n#SBATCH -t 1\necho ran"}) {
        const auto done = run(script, "X=1");
        EXPECT_EQ(done.status, 78) << script;
        EXPECT_EQ(done.out, "") << script;
        EXPECT_NE(done.err.find("spiderflow: site lyra: the plugin spiderflow did not act"),
                  std::string::npos)
            << done.err;
    }
}

TEST_F(Guard, LetsEveryKindOfScriptRunWithItsArguments) {
    const std::vector<std::pair<std::string, std::string>> scripts{
        {"#!/bin/bash\nprintf '%s|' \"$@\"\n", "one|it's \"two\" $HOME||"},
        {"#!/bin/sh -e\nprintf '%s|' \"$@\"", "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/awk -f\nBEGIN { printf \"%s|%s|%s|\", ARGV[1], ARGV[2], ARGV[3] }",
         "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/perl -w\nprint join('|', @ARGV), '|';\n", "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/env perl\nprint join('|', @ARGV), '|';\nprint "
         "\"SPIDERFLOW_SCRIPT\";\n__END__\nSPIDERFLOW_SCRIPT\n",
         "one|it's \"two\" $HOME||SPIDERFLOW_SCRIPT"},
    };
    for (const auto &[script, expected] : scripts) {
        const auto done = run(script, "SLURM_SPIDERFLOW_MASTER=10.0.0.1/29500");
        EXPECT_EQ(done.status, 0) << script << done.err;
        EXPECT_EQ(done.out, expected) << script;
    }
}

} // namespace
} // namespace spider::launch
