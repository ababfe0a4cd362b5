// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/cost.h"

namespace spider::plan {

namespace {

double tokens(const JobSpec &spec) { return static_cast<double>(spec.micro_batch) * spec.sequence; }

// The sheet's peak is for 16-bit formats; fp32 training runs as TF32 at half of it (A100, H100 data sheets).
double speed(const JobSpec &spec, const GpuType &gpu) {
    return gpu.peak_flops * gpu.efficiency * (spec.precision == Precision::fp32 ? 0.5 : 1.0);
}

double matrix_parameters(const ModelSpec &model) {
    const double h = model.hidden;
    const double attention = h * model.head_dim * (2.0 * model.heads + 2.0 * model.kv_heads);
    return attention + (model.gated_mlp ? 3.0 : 2.0) * h * model.intermediate;
}

} // namespace

double layer_parameters(const ModelSpec &model) {
    const double h = model.hidden;
    // LayerNorm has a bias and so have GPT-2's four matrices; RMSNorm and Llama's have none.
    const double small = model.gated_mlp ? 2.0 * h
                                         : 4.0 * h + h + model.intermediate + h +
                                               model.head_dim * (model.heads + 2.0 * model.kv_heads);
    return matrix_parameters(model) + small;
}

double embedding_parameters(const ModelSpec &model) {
    return (static_cast<double>(model.vocab) + model.positions) * model.hidden;
}

double head_parameters(const ModelSpec &model) {
    return static_cast<double>(model.vocab) * model.hidden + (model.gated_mlp ? 1.0 : 2.0) * model.hidden;
}

double attention_flops(const JobSpec &spec) {
    return 4.0 * tokens(spec) * spec.sequence * spec.model.heads * spec.model.head_dim / 2.0;
}

double layer_flops(const JobSpec &spec) {
    return 2.0 * tokens(spec) * matrix_parameters(spec.model) + attention_flops(spec);
}

double head_flops(const JobSpec &spec) { return 2.0 * tokens(spec) * spec.model.vocab * spec.model.hidden; }

Bytewise bytewise(Precision precision) {
    if (precision == Precision::fp32) return {.weight = 4, .gradient = 4, .optimizer = 8, .activation = 4};
    return {};
}

Times layer_times(const JobSpec &spec, const GpuType &gpu, int tp) {
    const double rate = speed(spec, gpu) * tp;
    const Seconds reduce = 2.0 * ring_seconds(boundary_bytes(spec), tp, gpu.fabric, 0);
    Times times{.forward = layer_flops(spec) / rate + reduce};
    times.backward = 2.0 * layer_flops(spec) / rate + reduce;
    if (spec.recompute == Recompute::full) times.backward += times.forward;
    if (spec.recompute == Recompute::selective) times.backward += attention_flops(spec) / rate;
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
