// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/cost.h"

#include <algorithm>

namespace spider::plan {

namespace {

double tokens(const JobSpec &spec) { return static_cast<double>(spec.micro_batch) * spec.sequence; }

// The sheet's peak is for 16-bit formats; fp32 training runs as TF32 at half of it (A100, H100 data sheets).
double speed(const JobSpec &spec, const GpuType &gpu) {
    return gpu.peak_flops * gpu.efficiency * (spec.precision == Precision::fp32 ? 0.5 : 1.0);
}

bool is_in(const std::vector<int> &layers, int layer) {
    return std::binary_search(layers.begin(), layers.end(), layer);
}

double attention_matrices(const ModelSpec &model) {
    const double h = model.hidden, heads = model.heads;
    if (!model.latent) return h * model.head_dim * (2.0 * heads + 2.0 * model.kv_heads);
    const auto &latent = *model.latent;
    const double query_width = heads * (model.head_dim + latent.rotary_dim);
    const double queries = latent.query_rank > 0 ? latent.query_rank * (h + query_width) : h * query_width;
    const double keys_values = h * (latent.key_value_rank + latent.rotary_dim) +
                               latent.key_value_rank * heads * (model.head_dim + latent.value_dim);
    return queries + keys_values + heads * latent.value_dim * h;
}

double mlp_matrices(const ModelSpec &model, double width) {
    return (model.gated_mlp ? 3.0 : 2.0) * model.hidden * width;
}

// With `experts` of the routed ones.
double matrix_parameters(const ModelSpec &model, int layer, int experts) {
    const auto attention = attention_matrices(model);
    if (!has_experts(model, layer)) return attention + mlp_matrices(model, model.intermediate);
    const auto &mixture = *model.experts;
    const double router = (mixture.routed + (mixture.shared_gate ? 1.0 : 0.0)) * model.hidden;
    return attention + router + mlp_matrices(model, static_cast<double>(experts) * mixture.width) +
           mlp_matrices(model, mixture.shared_width);
}

double all_matrices(const ModelSpec &model, int layer) {
    return matrix_parameters(model, layer, model.experts ? model.experts->routed : 0);
}

double active_matrices(const ModelSpec &model, int layer) {
    return matrix_parameters(model, layer, model.experts ? model.experts->per_token : 0);
}

// Norms and biases. LayerNorm has a bias and so have GPT-2's four matrices; RMSNorm has none.
double vector_parameters(const ModelSpec &model, int layer) {
    const double h = model.hidden;
    const double query_key_value = model.head_dim * (model.heads + 2.0 * model.kv_heads);
    if (!model.gated_mlp) return 2.0 * model.norms * h + query_key_value + h + model.intermediate + h;
    double sum = model.norms * h;
    if (model.query_key_norm) sum += 2.0 * model.head_dim;
    if (model.query_key_value_bias)
        sum += model.latent
                   ? model.latent->query_rank + model.latent->key_value_rank + model.latent->rotary_dim
                   : query_key_value;
    if (model.output_bias) sum += h;
    if (model.mlp_bias && !has_experts(model, layer)) sum += 2.0 * model.intermediate + h;
    if (model.latent) sum += model.latent->query_rank + model.latent->key_value_rank; // their norms
    if (has_experts(model, layer) && model.experts->router_bias) sum += model.experts->routed;
    return sum;
}

// Positions that one token looks at in the mean.
double context(const JobSpec &spec, int layer) {
    const double s = spec.sequence;
    const auto &window = spec.model.window;
    if (!window || window->tokens >= spec.sequence || is_in(window->full_layers, layer)) return s / 2;
    return window->tokens - static_cast<double>(window->tokens) * window->tokens / (2 * s);
}

} // namespace

bool has_experts(const ModelSpec &model, int layer) {
    return model.experts && !is_in(model.experts->dense_layers, layer);
}

double layer_parameters(const ModelSpec &model, int layer) {
    return all_matrices(model, layer) + vector_parameters(model, layer);
}

double embedding_parameters(const ModelSpec &model) {
    return (static_cast<double>(model.vocab) + model.positions) * model.hidden;
}

double head_parameters(const ModelSpec &model) {
    return static_cast<double>(model.vocab) * model.hidden + (model.gated_mlp ? 1.0 : 2.0) * model.hidden;
}

double all_parameters(const ModelSpec &model) {
    double sum = embedding_parameters(model) + head_parameters(model);
    if (model.tied_embeddings) sum -= static_cast<double>(model.vocab) * model.hidden;
    for (int layer = 0; layer < model.layers; ++layer)
        sum += layer_parameters(model, layer);
    return sum;
}

double active_parameters(const ModelSpec &model) {
    auto sum = all_parameters(model);
    for (int layer = 0; layer < model.layers; ++layer)
        sum -= all_matrices(model, layer) - active_matrices(model, layer);
    return sum;
}

double attention_flops(const JobSpec &spec, int layer) {
    const auto &model = spec.model;
    const double width = model.latent ? model.head_dim + model.latent->rotary_dim + model.latent->value_dim
                                      : 2.0 * model.head_dim;
    return 2.0 * tokens(spec) * context(spec, layer) * model.heads * width;
}

double layer_flops(const JobSpec &spec, int layer) {
    return 2.0 * tokens(spec) * active_matrices(spec.model, layer) + attention_flops(spec, layer);
}

double head_flops(const JobSpec &spec) { return 2.0 * tokens(spec) * spec.model.vocab * spec.model.hidden; }

Bytewise bytewise(Precision precision) {
    if (precision == Precision::fp32) return {.weight = 4, .gradient = 4, .optimizer = 8, .activation = 4};
    if (precision == Precision::fp16) return {.gradient = 2};
    return {};
}

Times layer_times(const JobSpec &spec, const GpuType &gpu, int tp, int layer) {
    const double rate = speed(spec, gpu) * tp;
    const Seconds reduce = 2.0 * ring_seconds(boundary_bytes(spec), tp, gpu.fabric, 0);
    Times times{.forward = layer_flops(spec, layer) / rate + reduce};
    times.backward = 2.0 * layer_flops(spec, layer) / rate + reduce;
    if (spec.recompute == Recompute::full) times.backward += times.forward;
    if (spec.recompute == Recompute::selective) times.backward += attention_flops(spec, layer) / rate;
    return times;
}

Times head_times(const JobSpec &spec, const GpuType &gpu, int tp) {
    const Seconds forward = head_flops(spec) / (speed(spec, gpu) * tp);
    return {.forward = forward, .backward = 2.0 * forward};
}

Bytes boundary_bytes(const JobSpec &spec) {
    return tokens(spec) * spec.model.hidden * bytewise(spec.precision).activation;
}

Seconds ring_seconds(Bytes bytes, int members, double bandwidth, Seconds latency) {
    if (members < 2) return 0;
    const double n = members;
    return 2.0 * (n - 1) / n * bytes / bandwidth + 2.0 * (n - 1) * latency;
}

} // namespace spider::plan
