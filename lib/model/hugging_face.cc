// SPDX-License-Identifier: GPL-3.0-or-later
// A Hugging Face config.json as numbers. One row per architecture: names and defaults of its fields
// (transformers: LlamaConfig, GPT2Config).
#include "model/fields.h"

#include "util/text.h"

#include <array>

namespace spider::model {

namespace {

struct Family {
    std::string_view architecture, type;                  // "architectures", "model_type"
    std::string_view layers, hidden, heads, intermediate; // names of its fields
    std::string_view positions;                           // learned position embeddings; "" = rotary
    bool gated_mlp;
    bool tied; // when "tie_word_embeddings" is absent
};

constexpr std::array families{
    Family{"LlamaForCausalLM", "llama", "num_hidden_layers", "hidden_size", "num_attention_heads",
           "intermediate_size", "", true, false},
    Family{"GPT2LMHeadModel", "gpt2", "n_layer", "n_embd", "n_head", "n_inner", "n_positions", false, true},
};

std::string known_architectures() {
    std::vector<std::string> names;
    for (const auto &family : families)
        names.emplace_back(family.architecture);
    return util::join(names, ", ");
}

Result<const Family *> family_of(const Json &json) {
    const auto architectures = texts_at(json, "architectures");
    const auto type = text_at(json, "model_type");
    for (const auto &family : families) {
        if (!architectures.empty() ? architectures.front() == family.architecture : type == family.type)
            return &family;
    }
    if (!at(json, "explicit").is_null())
        return Error{Errc::invalid, "models as explicit per-layer numbers are not in this version; "
                                    "give a Hugging Face config.json"};
    if (architectures.empty() && type.empty())
        return Error{Errc::invalid, "no \"architectures\": not a Hugging Face config.json"};
    return Error{Errc::invalid, "architecture '" + (architectures.empty() ? type : architectures.front()) +
                                    "' is not known; known: " + known_architectures()};
}

// The largest values that any published model comes near, so that products stay far from overflow.
constexpr int max_layers = 10'000;
constexpr int max_width = 10'000'000;

ModelSpec read_numbers(Fields &fields, const Family &family) {
    ModelSpec model;
    model.architecture = family.architecture;
    model.layers = fields.integer(family.layers, 1, max_layers);
    model.hidden = fields.integer(family.hidden, 1, max_width);
    model.heads = fields.integer(family.heads, 1, max_width);
    model.vocab = fields.integer("vocab_size", 1, 100'000'000);
    model.gated_mlp = family.gated_mlp;
    model.tied_embeddings = fields.flag_or("tie_word_embeddings", family.tied);
    if (family.gated_mlp)
        model.intermediate = fields.integer(family.intermediate, 1, max_width);
    else
        model.intermediate = fields.integer_or(family.intermediate, 4 * model.hidden, 1, max_width);
    model.kv_heads = fields.integer_or("num_key_value_heads", model.heads, 1, model.heads);
    model.head_dim = fields.integer_or("head_dim", model.hidden / model.heads, 1, max_width);
    if (!family.positions.empty()) model.positions = fields.integer(family.positions, 1);
    if (!fields.has("head_dim") && model.hidden % model.heads != 0)
        fields.fail(family.hidden, std::to_string(model.hidden) + " is not a multiple of the " +
                                       std::to_string(model.heads) + " heads");
    if (model.heads % model.kv_heads != 0)
        fields.fail("num_key_value_heads", std::to_string(model.kv_heads) + " does not divide the " +
                                               std::to_string(model.heads) + " heads");
    return model;
}

} // namespace

Result<ModelSpec> read_hugging_face_config(const Json &json) {
    if (!json.is_object()) return Error{Errc::invalid, "not a Hugging Face config.json: expected an object"};
    const auto family = family_of(json);
    if (!family) return family.error();
    std::optional<Error> trouble;
    Fields fields(json, std::string((*family)->architecture), trouble);
    auto model = read_numbers(fields, **family);
    if (trouble) return std::move(*trouble);
    return model;
}

} // namespace spider::model
