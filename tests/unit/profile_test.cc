// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow profile` with a fake Python: what it asks, what it writes, what `plan` makes of it, and what it
// says when something is missing. tests/profile.test has real ones.
#include "unit/command_fixture.h"

#include <cmath>

namespace spider::cli {
namespace {

struct ProfileTest : CommandTest {
    std::string output = slurm.folder / "profile.json";
    // 49,152 weights and 832 values of norms and biases in a layer of the fixture's GPT-2 of width 64;
    // 256 x 64 weights and a norm in its head.
    std::string answer = R"({"device":"NVIDIA A100-SXM4-40GB","torch":"2.4.0","dtype":"bf16",)"
                         R"("layer_parameters":49984,"head_parameters":16512,)"
                         R"("layer_forward_seconds":1e-3,"layer_backward_seconds":3e-3,)"
                         R"("head_forward_seconds":5e-3,"head_backward_seconds":7e-3})";

    ProfileTest() {
        ::setenv("SPIDERFLOW_PYTHON", (slurm.folder / "python").c_str(), 1);
        python("cat >$here/request; echo loading; cat $here/answer");
    }
    ~ProfileTest() override { ::unsetenv("SPIDERFLOW_PYTHON"); }

    void python(const std::string &body) const { slurm.tool("python", body); }
    Ended profile(Words more = {}) {
        slurm.file("answer", answer);
        more.insert(more.begin(), {"profile", "--model", model, "--output", output});
        return run(more);
    }
    Json written() const {
        const auto json = model::parse_json(read("profile.json"));
        return json ? model::at(*json, "profile") : Json();
    }
    // Seconds of an iteration of one micro-batch on one slot of A100s.
    double planned(const std::string &file, const std::string &gpus) {
        const auto sites = slurm.file("one.json", R"({"sites":[{"name":"a","gpu":"a100","nodes":1,)"
                                                  R"("gpus_per_node":)" +
                                                      gpus + R"(}],"bw_gbps":[[null]],"rtt_ms":[[null]]})");
        const auto ended = run({"plan", "--model", file, "--gbs", "1", "--tp", gpus, "--pp", "1",
                                "--federation", sites, "--json"});
        const auto json = model::parse_json(ended.out);
        EXPECT_TRUE(json) << ended.err;
        return json ? model::number_at(model::at(*json, "iteration"), "seconds").value_or(0) : 0;
    }
    // One line on standard error that has `words`, and what was in the output file is still there.
    void refused(int status, const std::string &words, Words more = {}) {
        slurm.file("profile.json", "old");
        const auto ended = profile(std::move(more));
        EXPECT_EQ(ended.status, status) << words;
        EXPECT_NE(ended.err.find(words), std::string::npos) << words << "\n" << ended.err;
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_EQ(ended.out, "");
        EXPECT_EQ(read("profile.json"), "old") << words;
    }
};

TEST_F(ProfileTest, GivesAPlanTheSecondsThatWereMeasured) {
    const auto formulas = planned(model, "1");
    const auto ended = profile();
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("\nlayer      0.001     0.003\n"), std::string::npos) << ended.out;
    const auto measured = 8 * (1e-3 + 3e-3) + 5e-3 + 7e-3; // eight layers and the head, forward and backward
    EXPECT_NEAR(planned(output, "1"), measured, 1e-9);
    EXPECT_GT(std::abs(formulas - measured), 1e-3);
}

TEST_F(ProfileTest, AsksForTheModelAndTheRunThatTheOptionsSay) {
    ASSERT_EQ(profile({"--seq", "32", "--mbs", "3", "--recompute", "full", "--dtype", "fp16", "--device",
                       "cuda", "--repeat", "7", "--gpu", "h100"})
                  .status,
              0);
    const auto asked = model::parse_json(read("request"));
    ASSERT_TRUE(asked);
    const Json wanted{{"sequence", 32}, {"micro_batch", 3}, {"tp", 1},         {"recompute", "full"},
                      {"gpu", "h100"},  {"device", "cuda"}, {"dtype", "fp16"}, {"repeat", 7}};
    for (const auto &[key, value] : wanted.items())
        EXPECT_EQ(model::at(*asked, key), value) << key;
    EXPECT_EQ(model::number_at(model::at(*asked, "model"), "hidden"), 64);
    EXPECT_EQ(model::text_at(written(), "gpu"), "h100");
    EXPECT_EQ(model::text_at(written(), "recompute"), "full");
    EXPECT_EQ(model::number_at(written(), "micro_batch"), 3);
}

// 128 tokens x 64 values x 2 bytes around a ring of two at 240 GB/s take 68.27 ns; two in each direction.
TEST_F(ProfileTest, AddsTheAllReducesOfASlotAsThePlanCountsThem) {
    constexpr double both = 2 * 128.0 * 64 * 2 / 240e9;
    answer = R"({"device":"NVIDIA A100","dtype":"bf16","layer_forward_seconds":1e-6,)"
             R"("layer_backward_seconds":2e-6,"head_forward_seconds":1e-6,"head_backward_seconds":2e-6})";
    ASSERT_EQ(profile({"--tp", "2"}).status, 0);
    EXPECT_NEAR(*model::number_at(written(), "layer_forward_seconds"), 1e-6 + both, 1e-15);
    EXPECT_NEAR(*model::number_at(written(), "layer_backward_seconds"), 2e-6 + both, 1e-15);
    EXPECT_NEAR(*model::number_at(written(), "head_forward_seconds"), 1e-6, 1e-15);
    EXPECT_NEAR(planned(output, "2"), 8 * (3e-6 + 2 * both) + 3e-6, 1e-12);
    ASSERT_EQ(profile({"--tp", "2", "--recompute", "full"}).status, 0); // forward's again
    EXPECT_NEAR(*model::number_at(written(), "layer_backward_seconds"), 2e-6 + 2 * both, 1e-15);
}

TEST_F(ProfileTest, KnowsGpusByTheirDevicesNames) {
    const std::vector<std::pair<std::string, std::string>> names{
        {"NVIDIA A100-SXM4-40GB", "a100"},
        {"NVIDIA A100 80GB PCIe", "a100"},
        {"NVIDIA A10", "a10"},
        {"NVIDIA A10G", "a10g"},
        {"NVIDIA H100 80GB HBM3", "h100"},
        {"NVIDIA H100 PCIe", "h100_pcie"},
        {"NVIDIA GH200 480GB", "gh200"},
        {"NVIDIA H200", "h200"},
        {"NVIDIA L40S", "l40s"},
        {"NVIDIA L4", "l4"},
        {"NVIDIA RTX A6000", "rtx_a6000"},
        {"NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada"},
        {"NVIDIA GeForce RTX 4090", "rtx_4090"},
        {"Tesla V100-SXM2-16GB", "v100"},
        {"Tesla T4", "t4"},
        {"AMD Instinct MI300X", "mi300x"},
        {"AMD Instinct MI250X / MI250", "mi250x"},
    };
    const auto whole = answer;
    for (const auto &[device, type] : names) {
        answer = whole;
        answer.replace(answer.find("NVIDIA A100-SXM4-40GB"), 21, device);
        EXPECT_EQ(profile().status, 0) << device;
        EXPECT_EQ(model::text_at(written(), "gpu"), type) << device;
    }
    for (const std::string device : {"NVIDIA A1000", "Quadro 6000", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"}) {
        answer = whole;
        answer.replace(answer.find("NVIDIA A100-SXM4-40GB"), 21, device);
        refused(failed, "the device '" + device + "' is of no known type; give --gpu");
    }
}

TEST_F(ProfileTest, RefusesWhatItDoesNotBuild) {
    const auto llama = [](const std::string &name, const std::string &more) {
        return R"({"architectures":[")" + name +
               R"("],"num_hidden_layers":2,"hidden_size":64,"intermediate_size":128,"num_attention_heads":4,)"
               R"("num_key_value_heads":2,"vocab_size":512,"max_position_embeddings":256)" +
               more + "}";
    };
    const auto as = [&](const std::string &text, const std::string &words, Words more = {}) {
        model = slurm.file("m.json", text);
        refused(misused, words, std::move(more));
    };
    as(llama("MixtralForCausalLM", R"(,"num_local_experts":4,"num_experts_per_tok":2)"),
       "m.json: a mixture of experts is not measured yet");
    as(llama("DeepseekV2ForCausalLM", R"(,"qk_nope_head_dim":16,"kv_lora_rank":8,"qk_rope_head_dim":8,)"
                                      R"("v_head_dim":16)"),
       "m.json: latent attention is not measured yet");
    const auto mistral = llama("MistralForCausalLM", R"(,"sliding_window":100)");
    as(mistral, "m.json: attention over a window is not measured yet; its 100 tokens are fewer than the");
    as(mistral, "m.json: tp=3 does not divide the model's 4 heads", {"--seq", "100", "--tp", "3"});
    as(R"({"profile":{}})", "m.json: profile: model: missing");
    as(R"({"explicit":{"layers":2,"forward_seconds":1,"backward_seconds":1,"boundary_bytes":1,)"
       R"("gradient_bytes":1}})",
       "m.json: expected a Hugging Face config.json, not costs or times");
    as("{", "m.json:1:2: ");
    model = slurm.file("m.json", llama("LlamaForCausalLM", ""));
    refused(misused, "--gpu: unknown type 'abacus'; known: gb300", {"--gpu", "abacus"});
    refused(misused, "--mbs", {"--mbs", "0"});
    refused(misused, "--device", {"--device", "tpu"});
    EXPECT_TRUE(slurm.calls("python").empty());
}

TEST_F(ProfileTest, TurnsEveryFailureOfPythonIntoOneLine) {
    python("echo \"No module named 'torch'\" >&2; exit 3");
    refused(failed, "python: No module named 'torch'; install it, or name one in SPIDERFLOW_PYTHON");
    python("printf 'Traceback\\nRuntimeError: boom\\n' >&2; exit 1");
    refused(failed, "profile: RuntimeError: boom");
    python("exit 9");
    refused(failed, "python: exit status 9");
    python("kill -9 $$");
    refused(failed, "ended by signal 9");
    python("echo hello");
    refused(failed, "gave no times");
    python("cat $here/answer");
    const auto whole = answer;
    answer.replace(answer.find("49984"), 5, "49985");
    refused(failed, "layer_parameters is 49985, the model has 49984");
    answer = whole;
    answer.replace(answer.find("5e-3"), 4, "0e-3");
    refused(failed, "head_forward_seconds: not above 0");
    ::setenv("SPIDERFLOW_PYTHON", "/nowhere/python", 1);
    refused(failed, "no Python with PyTorch: /nowhere/python: No such file");
}

TEST_F(ProfileTest, SaysBeforeMeasuringThatTheOutputCannotBeWritten) {
    output = slurm.folder / "none/profile.json";
    EXPECT_NE(profile().err.find("none/profile.json: No such file"), std::string::npos);
    output = slurm.folder;
    EXPECT_NE(profile().err.find("not a regular file"), std::string::npos);
    EXPECT_TRUE(slurm.calls("python").empty());
}

} // namespace
} // namespace spider::cli
