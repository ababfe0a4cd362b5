// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/memory.h"

#include "plan/cost.h"

#include <algorithm>
#include <cmath>

namespace spider::plan {

namespace {

constexpr int plenty = 1'000'000'000;

// All tensors of one layer and micro-batch that backward reads, on one GPU.
Bytes layer_activations(const JobSpec &spec, int tp) {
    const auto &model = spec.model;
    const double tokens = static_cast<double>(spec.micro_batch) * spec.sequence;
    const double whole = 4.0 * model.hidden; // inputs of both norms, of attention and of the MLP
    const double attention = 2.0 * model.heads * model.head_dim + 2.0 * model.kv_heads * model.head_dim;
    const double mlp = (model.gated_mlp ? 4.0 : 2.0) * model.intermediate;
    const double masks = model.gated_mlp ? 0.0 : 2.0 * model.hidden; // dropout, one byte each
    return tokens * (bytewise(spec.precision).activation * (whole + (attention + mlp) / tp) + masks);
}

Bytes in_flight(const JobSpec &spec, int tp) {
    if (spec.recompute == Recompute::full) return boundary_bytes(spec); // the layer's input
    const auto all = layer_activations(spec, tp);
    if (spec.recompute == Recompute::none) return all;
    const double output = static_cast<double>(spec.micro_batch) * spec.sequence * spec.model.heads *
                          spec.model.head_dim * bytewise(spec.precision).activation / tp;
    return all - output; // the attention products' output is made again
}

int whole(double count) {
    return count < 0 ? 0 : static_cast<int>(std::min<double>(std::floor(count), plenty));
}

} // namespace

Memory::Memory(const JobSpec &spec, int tp, int dp) : tied_(spec.model.tied_embeddings) {
    const auto bytes = bytewise(spec.precision);
    const Bytes per_parameter = (bytes.weight + bytes.gradient + bytes.optimizer / dp) / tp;
    layer_state_ = layer_parameters(spec.model) * per_parameter;
    embedding_state_ = embedding_parameters(spec.model) * per_parameter;
    head_state_ = head_parameters(spec.model) * per_parameter;
    layer_flight_ = in_flight(spec, tp);
    working_ = spec.recompute == Recompute::full ? layer_activations(spec, tp) : 0;
    // Logits in the training precision and in fp32 for the loss.
    logits_ = static_cast<double>(spec.micro_batch) * spec.sequence * spec.model.vocab *
              (bytes.activation + 4) / tp;
}

Bytes Memory::fixed(const StageShape &shape) const {
    Bytes sum = working_;
    if (shape.first) sum += embedding_state_;
    if (shape.last) sum += logits_;
    if (shape.last && !(shape.first && tied_)) sum += head_state_; // tied: the last stage has its own copy
    return sum;
}

Bytes Memory::stage(const StageShape &shape) const {
    return fixed(shape) + shape.layers * (layer_state_ + shape.depth * layer_flight_);
}

int Memory::layers_within(Bytes available, StageShape shape) const {
    return whole((available - fixed(shape)) / (layer_state_ + shape.depth * layer_flight_));
}

int Memory::depth_within(Bytes available, StageShape shape) const {
    return whole((available - fixed(shape) - shape.layers * layer_state_) / (shape.layers * layer_flight_));
}

} // namespace spider::plan
