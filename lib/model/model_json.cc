// SPDX-License-Identifier: GPL-3.0-or-later
// Our own JSON form of a model: how a job's model travels. What a model does not have is left out.
#include "model/model_file.h"

#include <array>

namespace spider::model {

namespace {

struct Flag {
    std::string_view key;
    bool ModelSpec::*value;
};
constexpr std::array flags{
    Flag{"gated_mlp", &ModelSpec::gated_mlp},
    Flag{"tied_embeddings", &ModelSpec::tied_embeddings},
    Flag{"query_key_norm", &ModelSpec::query_key_norm},
    Flag{"query_key_value_bias", &ModelSpec::query_key_value_bias},
    Flag{"output_bias", &ModelSpec::output_bias},
    Flag{"mlp_bias", &ModelSpec::mlp_bias},
};

struct Size {
    std::string_view key;
    int ModelSpec::*value;
    int max = max_width;
};
constexpr std::array sizes{
    Size{"hidden", &ModelSpec::hidden},     Size{"intermediate", &ModelSpec::intermediate},
    Size{"heads", &ModelSpec::heads},       Size{"kv_heads", &ModelSpec::kv_heads},
    Size{"head_dim", &ModelSpec::head_dim}, Size{"vocab", &ModelSpec::vocab, max_vocab},
};

LatentAttention read_latent(const Json &json, const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    return {.query_rank = fields.integer_or("query_rank", 0, 0, max_width),
            .key_value_rank = fields.integer("key_value_rank", 1, max_width),
            .rotary_dim = fields.integer("rotary_dim", 0, max_width),
            .value_dim = fields.integer("value_dim", 1, max_width)};
}

Json to_json(const LatentAttention &latent) {
    return {{"query_rank", latent.query_rank},
            {"key_value_rank", latent.key_value_rank},
            {"rotary_dim", latent.rotary_dim},
            {"value_dim", latent.value_dim}};
}

Experts read_experts(const Json &json, int layers, const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    Experts experts;
    experts.routed = fields.integer("routed", 1, max_experts);
    experts.per_token = fields.integer("per_token", 1, experts.routed);
    experts.width = fields.integer("width", 1, max_width);
    experts.shared_width = fields.integer_or("shared_width", 0, 0);
    experts.shared_gate = fields.flag_or("shared_gate", false);
    experts.router_bias = fields.flag_or("router_bias", false);
    experts.dense_layers = fields.integers_or_none("dense_layers", layers);
    return experts;
}

Json to_json(const Experts &experts) {
    return {{"routed", experts.routed},
            {"per_token", experts.per_token},
            {"width", experts.width},
            {"shared_width", experts.shared_width},
            {"shared_gate", experts.shared_gate},
            {"router_bias", experts.router_bias},
            {"dense_layers", experts.dense_layers}};
}

Window read_window(const Json &json, int layers, const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    return {fields.integer("tokens", 1), fields.integers_or_none("full_layers", layers)};
}

void read_shape(Fields &fields, ModelSpec &model) {
    model.architecture = fields.text_or("architecture", "");
    model.layers = fields.integer("layers", 1, max_layers);
    for (const auto &size : sizes)
        model.*size.value = fields.integer(size.key, 1, size.max);
    model.positions = fields.integer_or("positions", 0, 0);
    model.norms = fields.integer_or("norms", model.norms, 0, 100);
    for (const auto &flag : flags)
        model.*flag.value = fields.flag_or(flag.key, false);
}

} // namespace

ModelSpec read_model_spec(const Json &json, const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    ModelSpec model;
    if (fields.has("explicit"))
        return read_explicit(fields.object("explicit"), place + ": explicit", trouble);
    read_shape(fields, model);
    if (fields.has("latent"))
        model.latent = read_latent(fields.object("latent"), place + ": latent", trouble);
    if (fields.has("experts"))
        model.experts = read_experts(fields.object("experts"), model.layers, place + ": experts", trouble);
    if (fields.has("window"))
        model.window = read_window(fields.object("window"), model.layers, place + ": window", trouble);
    if (!fields.has("measurements")) return model;
    for (const auto &item : fields.list("measurements"))
        model.measurements.push_back(read_measurement(item, model.layers, place + ": measurements", trouble));
    return model;
}

Json to_json(const ModelSpec &model) {
    if (model.costs) return {{"explicit", explicit_json(model)}};
    Json json{{"architecture", model.architecture}, {"layers", model.layers}};
    for (const auto &size : sizes)
        json[size.key] = model.*size.value;
    json["positions"] = model.positions;
    json["norms"] = model.norms;
    for (const auto &flag : flags)
        json[flag.key] = model.*flag.value;
    if (model.latent) json["latent"] = to_json(*model.latent);
    if (model.experts) json["experts"] = to_json(*model.experts);
    if (model.window)
        json["window"] = {{"tokens", model.window->tokens}, {"full_layers", model.window->full_layers}};
    for (const auto &measurement : model.measurements)
        json["measurements"].push_back(to_json(measurement));
    return json;
}

Result<ModelSpec> model_spec_from_json(const Json &json) {
    std::optional<Error> trouble;
    auto model = read_model_spec(json, "model", trouble);
    if (trouble) return std::move(*trouble);
    return model;
}

} // namespace spider::model
