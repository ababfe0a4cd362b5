// SPDX-License-Identifier: GPL-3.0-or-later
// Costs that people write down: {"explicit": ...}, and the measurements of {"profile": ...}.
#include "model/gpu_table.h"
#include "model/model_file.h"

#include <algorithm>

namespace spider::model {

namespace {

constexpr int max_count = 1'000'000'000;
constexpr double max_seconds = 1e9;
constexpr double max_bytes = 1e18;

// Every layer takes time: a plan divides by it.
PerLayer read_seconds(Fields &fields, std::string_view key, int layers) {
    auto seconds = fields.reals(key, layers, max_seconds);
    if (std::any_of(seconds.begin(), seconds.end(), [](double value) { return value <= 0; }))
        fields.fail(key, "a layer that takes no time");
    return seconds;
}

PerLayer read_bytes_or_none(Fields &fields, std::string_view key, int layers) {
    return fields.has(key) ? fields.reals(key, layers, max_bytes) : PerLayer{0};
}

Json per_layer(const PerLayer &values) { return values.size() == 1 ? Json(values.front()) : Json(values); }

Json seconds_json(const LayerSeconds &times) {
    return {{"forward_seconds", per_layer(times.forward)}, {"backward_seconds", per_layer(times.backward)}};
}

LayerSeconds read_layer_seconds(const Json &json, const std::string &gpu, int layers,
                                const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    return {gpu, read_seconds(fields, "forward_seconds", layers),
            read_seconds(fields, "backward_seconds", layers)};
}

std::string lower(std::string text) {
    for (char &c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

} // namespace

ModelSpec read_explicit(const Json &json, const std::string &place, std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    ModelSpec model;
    auto &costs = model.costs.emplace();
    const int layers = model.layers = fields.integer("layers", 1, max_layers);
    costs.name = fields.text_or("name", "");
    costs.sequence = fields.integer_or("sequence", 1, 1, max_count);
    costs.tp = fields.integer_or("tp", 0, 0, max_count);
    costs.times.push_back(read_layer_seconds(json, "", layers, place, trouble));
    costs.boundary = fields.real("boundary_bytes", 0, max_bytes);
    costs.gradient = fields.reals("gradient_bytes", layers, max_bytes);
    costs.state = read_bytes_or_none(fields, "state_bytes", layers);
    costs.activation = read_bytes_or_none(fields, "activation_bytes", layers);
    if (!fields.has("gpus")) return model;
    for (const auto &[gpu, times] : fields.object("gpus").items())
        costs.times.push_back(
            read_layer_seconds(times, lower(gpu), layers, fields.place_of("gpus: " + gpu), trouble));
    return model;
}

Json explicit_json(const ModelSpec &model) {
    const auto &costs = *model.costs;
    Json json{{"name", costs.name}, {"layers", model.layers}, {"sequence", costs.sequence}, {"tp", costs.tp}};
    json.update(seconds_json(costs.times.front()));
    json["boundary_bytes"] = costs.boundary;
    json["gradient_bytes"] = per_layer(costs.gradient);
    json["state_bytes"] = per_layer(costs.state);
    json["activation_bytes"] = per_layer(costs.activation);
    for (std::size_t i = 1; i < costs.times.size(); ++i)
        json["gpus"][costs.times[i].gpu] = seconds_json(costs.times[i]);
    return json;
}

Measurement read_measurement(const Json &json, int layers, const std::string &place,
                             std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    Measurement measured;
    measured.layers.gpu = lower(fields.text("gpu"));
    if (!fields.failed() && !gpu_type_named(measured.layers.gpu))
        fields.fail("gpu", "unknown type '" + measured.layers.gpu + "'; known: " + known_gpu_types());
    measured.layers.forward = read_seconds(fields, "layer_forward_seconds", layers);
    measured.layers.backward = read_seconds(fields, "layer_backward_seconds", layers);
    measured.head_forward =
        fields.has("head_forward_seconds") ? fields.real("head_forward_seconds", 0, max_seconds) : 0;
    measured.head_backward =
        fields.has("head_backward_seconds") ? fields.real("head_backward_seconds", 0, max_seconds) : 0;
    measured.tp = fields.integer_or("tp", 1, 1, max_count);
    measured.micro_batch = fields.integer_or("micro_batch", 1, 1, max_count);
    measured.sequence = fields.integer("sequence", 1, max_count);
    measured.recompute = fields.choice_or("recompute", measured.recompute, recompute_named);
    return measured;
}

Json to_json(const Measurement &measured) {
    return {{"gpu", measured.layers.gpu},
            {"tp", measured.tp},
            {"micro_batch", measured.micro_batch},
            {"sequence", measured.sequence},
            {"recompute", name(measured.recompute)},
            {"layer_forward_seconds", per_layer(measured.layers.forward)},
            {"layer_backward_seconds", per_layer(measured.layers.backward)},
            {"head_forward_seconds", measured.head_forward},
            {"head_backward_seconds", measured.head_backward}};
}

} // namespace spider::model
