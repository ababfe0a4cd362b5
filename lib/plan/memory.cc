// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/memory.h"

#include "plan/cost.h"

namespace spider::plan {

namespace {

double tokens(const JobSpec &spec) { return static_cast<double>(spec.micro_batch) * spec.sequence; }

// Values per token; `split` ones lie on one GPU of the slot only.
struct Kept {
    double whole = 0;
    double split = 0;
};

// What attention's matrices and products read: queries, keys, values and the output.
Kept attention_values(const ModelSpec &model) {
    const double heads = model.heads, width = model.head_dim;
    if (!model.latent) {
        const double before_norm = model.query_key_norm ? (heads + model.kv_heads) * width : 0.0;
        return {.split = 2.0 * heads * width + 2.0 * model.kv_heads * width + before_norm};
    }
    const auto &latent = *model.latent; // before and after the norm of each latent vector
    return {.whole = 2.0 * latent.query_rank + 2.0 * latent.key_value_rank + latent.rotary_dim,
            .split = 2.0 * heads * (width + latent.rotary_dim) + 2.0 * heads * latent.value_dim};
}

Kept mlp_values(const ModelSpec &model, int layer) {
    const double each = model.gated_mlp ? 4.0 : 2.0; // a gated MLP: gate, up, activated gate, product
    if (!has_experts(model, layer)) return {.split = each * model.intermediate};
    const auto &experts = *model.experts;
    const double chosen = experts.per_token;
    return {.whole = 2.0 * chosen * model.hidden + experts.routed,
            .split = each * (chosen * experts.width + experts.shared_width)};
}

Bytes attention_output(const JobSpec &spec, int tp) {
    const auto &model = spec.model;
    const int width = model.latent ? model.latent->value_dim : model.head_dim;
    return tokens(spec) * model.heads * width * bytewise(spec.precision).activation / tp;
}

} // namespace

Bytes layer_activations(const JobSpec &spec, int tp, int layer) {
    const auto &model = spec.model;
    const auto attention = attention_values(model), mlp = mlp_values(model, layer);
    const double inputs = (model.norms + 2.0) * model.hidden; // of the norms, of attention and of the MLP
    const double masks = model.gated_mlp ? 0.0 : 2.0 * model.hidden; // dropout, one byte each
    const double values = inputs + attention.whole + mlp.whole + (attention.split + mlp.split) / tp;
    return tokens(spec) * (bytewise(spec.precision).activation * values + masks);
}

Bytes layer_in_flight(const JobSpec &spec, int tp, int layer) {
    if (spec.recompute == Recompute::full) return boundary_bytes(spec); // the layer's input
    const auto all = layer_activations(spec, tp, layer);
    return spec.recompute == Recompute::none ? all : all - attention_output(spec, tp); // made again
}

Bytes logits_bytes(const JobSpec &spec, int tp) {
    return tokens(spec) * spec.model.vocab * (bytewise(spec.precision).activation + 4) / tp;
}

} // namespace spider::plan
