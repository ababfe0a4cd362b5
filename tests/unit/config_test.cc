// SPDX-License-Identifier: GPL-3.0-or-later
// Hugging Face configurations; what their numbers add up to is in workload_test.cc.
#include "model/fields.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

namespace spider::model {
namespace {

std::string data(const std::string &name) { return SF_TEST_DATA "/models/" + name; }

Result<ModelSpec> config(std::string_view text) {
    const auto json = parse_json(text);
    EXPECT_TRUE(json) << text;
    return read_hugging_face_config(*json);
}

TEST(HuggingFace, PublishedConfigsAreRead) {
    const auto llama = read_hugging_face_config(*read_json_file(data("llama-3.1-70b.json")));
    ASSERT_TRUE(llama) << llama.error().what;
    EXPECT_EQ(*llama, (ModelSpec{"LlamaForCausalLM", 80, 8192, 28672, 64, 8, 128, 128256, 0, true, false}));
    const auto gpt2 = read_hugging_face_config(*read_json_file(data("gpt2.json")));
    ASSERT_TRUE(gpt2) << gpt2.error().what;
    EXPECT_EQ(*gpt2, (ModelSpec{"GPT2LMHeadModel", 12, 768, 3072, 12, 12, 64, 50257, 1024, false, true}));
}

TEST(HuggingFace, EveryMistakeIsOneLineWithItsField) {
    const auto what = [](std::string_view text) {
        const auto spec = config(text);
        return spec ? "no trouble" : spec.error().what;
    };
    EXPECT_EQ(what("[]"), "not a Hugging Face config.json: expected an object");
    EXPECT_EQ(what("{}"), "no \"architectures\": not a Hugging Face config.json");
    EXPECT_EQ(what(R"({"architectures":["MambaForCausalLM"]})"),
              "architecture 'MambaForCausalLM' is not known; known: GPT2LMHeadModel, LlamaForCausalLM, "
              "MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen2MoeForCausalLM, "
              "Qwen3ForCausalLM, Qwen3MoeForCausalLM, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, "
              "GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM");
    EXPECT_EQ(what(R"({"architectures":["LlamaForCausalLM"]})"),
              "LlamaForCausalLM: num_hidden_layers: missing; expected a whole number between 1 and 10000");
    const auto llama = [&](const std::string &layers, const std::string &hidden, const std::string &heads) {
        return what(R"({"model_type":"llama","num_hidden_layers":)" + layers + R"(,"hidden_size":)" + hidden +
                    R"(,"num_attention_heads":)" + heads + R"(,"intermediate_size":64,"vocab_size":100})");
    };
    EXPECT_EQ(llama("4", "64", "8"), "no trouble");
    for (const auto *bad : {"0", "-3", "1.5", "\"4\"", "1e300", "true", "[4]", "20000"})
        EXPECT_EQ(llama(bad, "64", "8"),
                  "LlamaForCausalLM: num_hidden_layers: expected a whole number between 1 and 10000")
            << bad;
    EXPECT_EQ(llama("4", "65", "8"), "LlamaForCausalLM: hidden_size: 65 is not a multiple of the 8 heads");
}

TEST(HuggingFace, MistakesInAMixtureAreOneLineWithTheirField) {
    const auto good = *read_json_file(data("qwen3-30b-a3b.json"));
    const auto what = [&](std::string_view key, const Json &value) {
        auto json = good;
        json[key] = value;
        const auto spec = read_hugging_face_config(json);
        return spec ? "no trouble" : spec.error().what;
    };
    EXPECT_EQ(what("num_experts_per_tok", 8), "no trouble");
    EXPECT_EQ(what("num_experts_per_tok", 129),
              "Qwen3MoeForCausalLM: num_experts_per_tok: expected a whole number between 1 and 128");
    EXPECT_EQ(what("num_experts", 0),
              "Qwen3MoeForCausalLM: num_experts: expected a whole number between 1 and 100000");
    EXPECT_EQ(what("num_experts", nullptr),
              "Qwen3MoeForCausalLM: num_experts: missing; expected a whole number between 1 and 100000");
    EXPECT_EQ(what("mlp_only_layers", Json::array({48})),
              "Qwen3MoeForCausalLM: mlp_only_layers: expected a list of whole numbers below 48");
    EXPECT_EQ(what("num_key_value_heads", 5),
              "Qwen3MoeForCausalLM: num_key_value_heads: 5 does not divide the 32 heads");
    EXPECT_EQ(what("head_dim", -1),
              "Qwen3MoeForCausalLM: head_dim: expected a whole number between 1 and 10000000");
    EXPECT_EQ(what("hidden_size", 1e300),
              "Qwen3MoeForCausalLM: hidden_size: expected a whole number between 1 and 10000000");
    EXPECT_EQ(what("decoder_sparse_step", 0),
              "Qwen3MoeForCausalLM: decoder_sparse_step: expected a whole number between 1 and 10000");
}

TEST(HuggingFace, LayersWithoutExpertsAndWithoutWindowsAreKnown) {
    const auto read = [](Json json) { return *read_hugging_face_config(json); };
    const auto deepseek = read(*read_json_file(data("deepseek-v3.json")));
    EXPECT_EQ(deepseek.experts->dense_layers, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(deepseek.head_dim, 128) << "not 7168 / 128";
    auto qwen = *read_json_file(data("qwen1.5-moe-a2.7b.json"));
    qwen["num_hidden_layers"] = 6, qwen["decoder_sparse_step"] = 2,
    qwen["mlp_only_layers"] = Json::array({3});
    EXPECT_EQ(read(qwen).experts->dense_layers, (std::vector<int>{0, 2, 3, 4}));
    EXPECT_FALSE(read(qwen).window);
    qwen["use_sliding_window"] = true, qwen["max_window_layers"] = 4;
    EXPECT_EQ(*read(qwen).window, (Window{32768, {0, 1, 2, 3}}));
    auto gemma = *read_json_file(data("gemma-3-1b.json"));
    EXPECT_EQ(*read(gemma).window, (Window{512, {5, 11, 17, 23}}));
    gemma["num_hidden_layers"] = 3;
    gemma["layer_types"] = Json::array({"full_attention", "sliding_attention", "full_attention"});
    EXPECT_EQ(*read(gemma).window, (Window{512, {0, 2}}));
    gemma["layer_types"].erase(0);
    EXPECT_EQ(read_hugging_face_config(gemma).error().what,
              "Gemma3ForCausalLM: layer_types: expected a list of 3; it has 2");
    EXPECT_EQ(*read(*read_json_file(data("mistral-7b.json"))).window, (Window{4096, {}}));
    EXPECT_FALSE(read(*read_json_file(data("mixtral-8x7b.json"))).window);
}

TEST(HuggingFace, OfAModelThatAlsoSeesTheTextPartIsRead) {
    const auto gemma = *read_hugging_face_config(*read_json_file(data("gemma-3-4b.json")));
    EXPECT_EQ(gemma.layers, 34);
    EXPECT_EQ(gemma.heads, 8);
    EXPECT_TRUE(gemma.tied_embeddings);
    EXPECT_EQ(config(R"({"text_config":{"model_type":"magic"}})")
                  .error()
                  .what.find("text_config: architecture 'magic' is not known"),
              0u);
}

TEST(ModelFiles, MutatedOnesAreAnErrorOrAValueButNeverACrash) {
    std::mt19937 chance(3);
    for (const auto &entry : std::filesystem::directory_iterator(SF_TEST_DATA "/models")) {
        const auto good = *util::read_file(entry.path().string());
        for (int round = 0; round < 300; ++round) {
            auto text = good;
            for (int i = 0; i < 2; ++i)
                text[chance() % text.size()] = "0123456789-e.[]{},:\"nul"[chance() % 23];
            const auto json = parse_json(text);
            if (!json) continue;
            const auto shape = read_hugging_face_config(*json), costs = model_spec_from_json(*json);
            EXPECT_TRUE(!shape || (shape->layers > 0 && shape->heads % shape->kv_heads == 0)) << text;
            EXPECT_TRUE(!costs || costs->layers > 0) << text;
            EXPECT_TRUE(!shape || *model_spec_from_json(to_json(*shape)) == *shape) << text;
        }
    }
}

} // namespace
} // namespace spider::model
