// SPDX-License-Identifier: GPL-3.0-or-later
// A Hugging Face config.json as numbers. One row per architecture: names and defaults of its fields
// (transformers: configuration_*.py of each model).
#include "model/model_file.h"

#include "util/text.h"

#include <algorithm>
#include <array>

namespace spider::model {

namespace {

// Which layers look back at a window only; a list "layer_types" says it for any model that has one.
enum class Windows {
    none,
    everywhere, // "sliding_window" unless null
    asked,      // with "use_sliding_window", from layer "max_window_layers" on
    pattern,    // all but every n-th
};

// Names of a mixture's fields; "" = it has no such thing.
struct Mixture {
    std::string_view routed, width;
    std::string_view shared_width; // of a gated shared expert
    std::string_view shared;       // how many, each as wide as a routed one
    std::string_view first;        // the first layer with experts
    std::string_view every;        // one of so many layers has experts,
    int offset = 0;                // counted from 1 instead of 0
};
constexpr Mixture mixtral{"num_local_experts", "intermediate_size", "", "", "", ""};
constexpr Mixture qwen2{"num_experts",
                        "moe_intermediate_size",
                        "shared_expert_intermediate_size",
                        "",
                        "",
                        "decoder_sparse_step",
                        1};
constexpr Mixture qwen3{"num_experts", "moe_intermediate_size", "", "", "", "decoder_sparse_step", 1};
constexpr Mixture deepseek{"n_routed_experts", "moe_intermediate_size", "",
                           "n_shared_experts", "first_k_dense_replace", "moe_layer_freq"};

struct Family {
    std::string_view architecture, type; // "architectures", "model_type"
    bool tied = false;                   // when "tie_word_embeddings" is absent
    const Mixture *mixture = nullptr;
    bool latent = false;
    bool query_key_value_bias = false, query_key_norm = false, router_bias = false;
    int norms = 2;
    Windows windows = Windows::none;
    int pattern = 0;
    int heads = 0, kv_heads = 0, head_dim = 0, vocab = 0; // when absent; 0 = as Llama's
};

// All of these have rotary positions and gated MLPs; GPT-2 is read by itself.
constexpr std::array families{
    Family{.architecture = "LlamaForCausalLM", .type = "llama"},
    Family{.architecture = "MistralForCausalLM", .type = "mistral", .windows = Windows::everywhere},
    Family{.architecture = "MixtralForCausalLM",
           .type = "mixtral",
           .mixture = &mixtral,
           .windows = Windows::everywhere},
    Family{.architecture = "Qwen2ForCausalLM",
           .type = "qwen2",
           .query_key_value_bias = true,
           .windows = Windows::asked},
    Family{.architecture = "Qwen2MoeForCausalLM",
           .type = "qwen2_moe",
           .mixture = &qwen2,
           .query_key_value_bias = true,
           .windows = Windows::asked},
    Family{.architecture = "Qwen3ForCausalLM",
           .type = "qwen3",
           .query_key_norm = true,
           .windows = Windows::asked,
           .head_dim = 128},
    Family{.architecture = "Qwen3MoeForCausalLM",
           .type = "qwen3_moe",
           .mixture = &qwen3,
           .query_key_norm = true,
           .windows = Windows::asked},
    Family{
        .architecture = "DeepseekV2ForCausalLM", .type = "deepseek_v2", .mixture = &deepseek, .latent = true},
    Family{.architecture = "DeepseekV3ForCausalLM",
           .type = "deepseek_v3",
           .mixture = &deepseek,
           .latent = true,
           .router_bias = true},
    Family{.architecture = "GemmaForCausalLM", .type = "gemma", .tied = true, .head_dim = 256},
    Family{.architecture = "Gemma2ForCausalLM",
           .type = "gemma2",
           .tied = true,
           .norms = 4,
           .windows = Windows::pattern,
           .pattern = 2,
           .head_dim = 256},
    Family{.architecture = "Gemma3ForCausalLM",
           .type = "gemma3_text",
           .tied = true,
           .query_key_norm = true,
           .norms = 4,
           .windows = Windows::pattern,
           .pattern = 6,
           .heads = 8,
           .kv_heads = 4,
           .head_dim = 256,
           .vocab = 262208},
};
constexpr std::string_view gpt2 = "GPT2LMHeadModel";

std::string known_architectures() {
    std::vector<std::string> names{std::string(gpt2)};
    for (const auto &family : families)
        names.emplace_back(family.architecture);
    return util::join(names, ", ");
}

void check_heads(Fields &fields, const ModelSpec &model) {
    if (model.heads % model.kv_heads != 0)
        fields.fail("num_key_value_heads", std::to_string(model.kv_heads) + " does not divide the " +
                                               std::to_string(model.heads) + " heads");
}

int head_dim_of(Fields &fields, std::string_view hidden, const ModelSpec &model) {
    if (model.hidden % model.heads != 0)
        fields.fail(hidden, std::to_string(model.hidden) + " is not a multiple of the " +
                                std::to_string(model.heads) + " heads");
    return model.hidden / model.heads;
}

ModelSpec read_gpt2(Fields &fields) {
    ModelSpec model;
    model.architecture = gpt2;
    model.layers = fields.integer("n_layer", 1, max_layers);
    model.hidden = fields.integer("n_embd", 1, max_width);
    model.heads = model.kv_heads = fields.integer("n_head", 1, max_width);
    model.head_dim = head_dim_of(fields, "n_embd", model);
    model.vocab = fields.integer("vocab_size", 1, max_vocab);
    model.intermediate = fields.integer_or("n_inner", 4 * model.hidden, 1, max_width);
    model.positions = fields.integer("n_positions", 1);
    model.tied_embeddings = fields.flag_or("tie_word_embeddings", true);
    return model;
}

LatentAttention read_latent(Fields &fields) {
    return {.query_rank = fields.integer_or("q_lora_rank", 0, 0, max_width),
            .key_value_rank = fields.integer("kv_lora_rank", 1, max_width),
            .rotary_dim = fields.integer("qk_rope_head_dim", 0, max_width),
            .value_dim = fields.integer("v_head_dim", 1, max_width)};
}

std::vector<int> dense_layers(Fields &fields, const Mixture &mixture, int layers) {
    const int first = mixture.first.empty() ? 0 : fields.integer_or(mixture.first, 0, 0, layers);
    const int every = mixture.every.empty() ? 1 : fields.integer_or(mixture.every, 1, 1, max_layers);
    const auto dense = fields.integers_or_none("mlp_only_layers", layers);
    std::vector<int> found;
    for (int layer = 0; layer < layers; ++layer)
        if (layer < first || (layer + mixture.offset) % every != 0 ||
            std::binary_search(dense.begin(), dense.end(), layer))
            found.push_back(layer);
    return found;
}

std::optional<Experts> read_experts(Fields &fields, const Family &family, int layers) {
    const auto &mixture = *family.mixture;
    if (family.latent && !fields.has(mixture.routed)) return std::nullopt; // a dense model of that family
    Experts experts;
    experts.routed = fields.integer(mixture.routed, 1, max_experts);
    experts.per_token = fields.integer("num_experts_per_tok", 1, experts.routed);
    experts.width = fields.integer(mixture.width, 1, max_width);
    experts.router_bias = family.router_bias;
    if (!mixture.shared_width.empty()) {
        experts.shared_width = fields.integer(mixture.shared_width, 0, max_width);
        experts.shared_gate = experts.shared_width > 0;
    }
    if (!mixture.shared.empty() && fields.has(mixture.shared))
        experts.shared_width = experts.width * fields.integer(mixture.shared, 0, 100);
    experts.dense_layers = dense_layers(fields, mixture, layers);
    return experts;
}

std::vector<int> full_layers(Fields &fields, const Family &family, const Json &json, int layers) {
    const auto types = texts_at(json, "layer_types");
    if (!types.empty() && types.size() != static_cast<std::size_t>(layers))
        fields.fail("layer_types", "expected a list of " + std::to_string(layers) + "; it has " +
                                       std::to_string(types.size()));
    const auto pattern = std::max(fields.integer_or("sliding_window_pattern", family.pattern, 1), 1);
    const int first = family.windows == Windows::asked ? fields.integer_or("max_window_layers", 0, 0) : 0;
    std::vector<int> full;
    for (int layer = 0; layer < layers && !fields.failed(); ++layer) {
        const auto by_rule =
            layer < first || (family.windows == Windows::pattern && (layer + 1) % pattern == 0);
        if (types.empty() ? by_rule : types[static_cast<std::size_t>(layer)] == "full_attention")
            full.push_back(layer);
    }
    return full;
}

std::optional<Window> read_window(Fields &fields, const Family &family, const Json &json, int layers) {
    if (family.windows == Windows::none || !fields.has("sliding_window")) return std::nullopt;
    if (family.windows == Windows::asked && !fields.flag_or("use_sliding_window", false)) return std::nullopt;
    return Window{fields.integer("sliding_window", 1), full_layers(fields, family, json, layers)};
}

int read_or(Fields &fields, std::string_view key, int fallback, int max) {
    return fallback > 0 ? fields.integer_or(key, fallback, 1, max) : fields.integer(key, 1, max);
}

ModelSpec read_sizes(Fields &fields, const Family &family) {
    ModelSpec model;
    model.architecture = family.architecture;
    model.layers = fields.integer("num_hidden_layers", 1, max_layers);
    model.hidden = fields.integer("hidden_size", 1, max_width);
    model.heads = read_or(fields, "num_attention_heads", family.heads, max_width);
    model.vocab = read_or(fields, "vocab_size", family.vocab, max_vocab);
    model.intermediate = fields.integer("intermediate_size", 1, max_width);
    model.kv_heads = fields.integer_or("num_key_value_heads",
                                       family.kv_heads > 0 ? family.kv_heads : model.heads, 1, model.heads);
    if (family.latent)
        model.head_dim = fields.integer("qk_nope_head_dim", 1, max_width), model.kv_heads = model.heads;
    else if (fields.has("head_dim") || family.head_dim > 0)
        model.head_dim = fields.integer_or("head_dim", family.head_dim, 1, max_width);
    else
        model.head_dim = head_dim_of(fields, "hidden_size", model);
    check_heads(fields, model);
    return model;
}

ModelSpec read_family(Fields &fields, const Family &family, const Json &json) {
    auto model = read_sizes(fields, family);
    const bool attention_bias = fields.flag_or("attention_bias", false);
    model.gated_mlp = true;
    model.tied_embeddings = fields.flag_or("tie_word_embeddings", family.tied);
    model.norms = family.norms;
    model.query_key_norm = family.query_key_norm;
    model.query_key_value_bias = family.query_key_value_bias || attention_bias;
    model.output_bias = attention_bias;
    model.mlp_bias = fields.flag_or("mlp_bias", false);
    if (family.latent) model.latent = read_latent(fields);
    if (family.mixture) model.experts = read_experts(fields, family, model.layers);
    model.window = read_window(fields, family, json, model.layers);
    return model;
}

Result<ModelSpec> read_text_model(const Json &json) {
    const auto architectures = texts_at(json, "architectures");
    const auto type = text_at(json, "model_type");
    const auto is = [&](std::string_view architecture, std::string_view model_type) {
        return !architectures.empty() ? architectures.front() == architecture : type == model_type;
    };
    std::optional<Error> trouble;
    std::optional<ModelSpec> model;
    for (const auto &family : families) {
        if (!is(family.architecture, family.type)) continue;
        Fields fields(json, std::string(family.architecture), trouble);
        model = read_family(fields, family, json);
    }
    if (is(gpt2, "gpt2")) {
        Fields fields(json, std::string(gpt2), trouble);
        model = read_gpt2(fields);
    }
    if (trouble) return std::move(*trouble);
    if (model) return std::move(*model);
    if (architectures.empty() && type.empty())
        return Error{Errc::invalid, "no \"architectures\": not a Hugging Face config.json"};
    return Error{Errc::invalid, "architecture '" + (architectures.empty() ? type : architectures.front()) +
                                    "' is not known; known: " + known_architectures()};
}

} // namespace

Result<ModelSpec> read_hugging_face_config(const Json &json) {
    if (!json.is_object()) return Error{Errc::invalid, "not a Hugging Face config.json: expected an object"};
    // Of a model that also sees or hears, the part that reads text; the rest is not counted.
    const auto &text = at(json, "text_config");
    if (!text.is_object()) return read_text_model(json);
    auto model = read_text_model(text);
    return model ? std::move(model) : Result<ModelSpec>(std::move(model).error().within("text_config"));
}

} // namespace spider::model
