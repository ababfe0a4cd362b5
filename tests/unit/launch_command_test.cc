// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow launch`, and what `spiderflow plan` says of the trainer.
#include "unit/command_fixture.h"

namespace spider::cli {
namespace {

struct LaunchTest : CommandTest {
    // Sites a and b with two GPUs each.
    std::string federation =
        slurm.file("f.json", R"({"sites":[{"name":"a","gpu":"h100","nodes":1,"gpus_per_node":2},)"
                             R"({"name":"b","gpu":"h100","nodes":1,"gpus_per_node":2}],)"
                             R"("bw_gbps":[[null,10],[10,null]],"rtt_ms":[[null,5],[5,null]]})");

    Ended plan(const std::string &trainer, Words more = {}) {
        Words words{"plan", "--federation", federation, "--model", model, "--gbs",     "16",   "--seq",
                    "32",   "--tp",         "1",        "--sites", "a,b", "--trainer", trainer};
        words.insert(words.end(), more.begin(), more.end());
        return run(words);
    }
    std::string plan_file(const std::string &trainer, Words more = {}) {
        more.emplace_back("--json");
        const auto ended = plan(trainer, more);
        EXPECT_EQ(ended.status, success) << ended.err;
        return slurm.file("plan.json", ended.out);
    }
};

TEST_F(LaunchTest, ShowsWhatAPartGetsAsJson) {
    const auto file = plan_file("torchtitan", {"--pp", "2", "--dp", "2"});
    const auto ended = run({"launch", "--plan", file, "--site", "b", "--json"});
    ASSERT_EQ(ended.status, success) << ended.err;
    const auto json = model::parse_json(ended.out).value();
    EXPECT_EQ(json["env"]["SLURM_SPIDERFLOW_SITE"], "b");
    EXPECT_EQ(json["env"]["SLURM_SPIDERFLOW_TRAINER"], "torchtitan");
    EXPECT_EQ(json["args"][0], "--parallelism.pipeline_parallel_degree");
    EXPECT_EQ(json["args"][1], "2");
    EXPECT_TRUE(json["files"]["schedule.csv"].get<std::string>().starts_with("0F0,"));
    EXPECT_TRUE(json["notes"].is_array());
}

TEST_F(LaunchTest, TakesAnotherTrainerAndStandardInput) {
    const auto file = plan_file("megatron", {"--pp", "2", "--dp", "2"});
    const auto ended = run({"launch", "--plan", "-", "--trainer", "deepspeed"}, read("plan.json"));
    ASSERT_EQ(ended.status, success) << ended.err;
    EXPECT_NE(ended.out.find("SLURM_SPIDERFLOW_SITE=a\n"), std::string::npos) << "the first part";
    EXPECT_NE(ended.out.find("SPIDERFLOW_TRAINER_ARGS=--tensor-model-parallel-size 1 "), std::string::npos);
    EXPECT_NE(ended.out.find("note: every stage holds 4 layers"), std::string::npos) << ended.out;
}

TEST_F(LaunchTest, WhatCannotBeIsOneLine) {
    const auto file = plan_file("torchtitan", {"--pp", "2", "--dp", "2", "--depth", "7"});
    const std::vector<std::pair<Words, std::string>> bad{
        {{"--plan", file, "--site", "c"}, "--site: the plan has no part at 'c'; sites: a, b"},
        {{"--plan", file, "--trainer", "magic"}, "--trainer=magic: expected plain, megatron"},
        {{"--plan", file, "--trainer", "deepspeed"},
         "DeepSpeed keeps P-i micro-batches in flight, the plan has 7"},
        {{"--plan", slurm.file("x.json", "{}")}, "x.json: plan: outcome: missing"},
        {{"--plan", slurm.file("y.json", "{\n[")}, "y.json:2:1"},
        {{"--plan", "/nonexistent/p.json"}, "/nonexistent/p.json"},
        {{}, "--plan is required"},
    };
    for (const auto &[options, expected] : bad) {
        Words words{"launch"};
        words.insert(words.end(), options.begin(), options.end());
        const auto ended = run(words);
        EXPECT_NE(ended.status, success) << expected;
        EXPECT_EQ(ended.out, "") << expected;
        EXPECT_NE(ended.err.find(expected), std::string::npos) << ended.err;
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    }
}

TEST_F(LaunchTest, APlanSaysWhatItsTrainerCannotBeTold) {
    const auto told = plan("deepspeed", {"--pp", "2", "--dp", "2"});
    ASSERT_EQ(told.status, success) << told.err;
    EXPECT_NE(told.out.find("\ntrainer     every stage holds 4 layers"), std::string::npos) << told.out;
    EXPECT_EQ(plan("megatron", {"--pp", "2", "--dp", "2"}).out.find("\ntrainer  "), std::string::npos);
}

TEST_F(LaunchTest, APlanThatTheTrainerCannotRunIsRefusedWhenItIsMade) {
    const auto ended = plan("deepspeed", {"--pp", "2", "--dp", "2", "--depth", "7"});
    EXPECT_NE(ended.status, success);
    EXPECT_NE(ended.err.find("use depth=stages, or trainer=torchtitan"), std::string::npos) << ended.err;
}

} // namespace
} // namespace spider::cli
