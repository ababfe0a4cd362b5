// SPDX-License-Identifier: GPL-3.0-or-later
// A model as numbers: its shape from a Hugging Face config.json, or costs that someone measured. Plain
// values; man page spiderflow-model(5). Text -> parsed lives in model/model_file.h.
#pragma once

#include "model/site.h"

#include <optional>
#include <string>
#include <vector>

namespace spider::model {

// Attention through narrow latent vectors (DeepSeek-V2). Widths; the last three are per head.
struct LatentAttention {
    int query_rank = 0; // 0: queries straight from the hidden state
    int key_value_rank = 0;
    int rotary_dim = 0; // of queries and keys, beside head_dim
    int value_dim = 0;
    bool operator==(const LatentAttention &) const = default;
};

// The MLPs of a mixture of experts.
struct Experts {
    int routed = 0; // of each such layer
    int per_token = 0;
    int width = 0;                 // of one routed expert
    int shared_width = 0;          // of all that every token passes, together
    bool shared_gate = false;      // Qwen2-MoE weighs the shared expert by the token
    bool router_bias = false;      // DeepSeek-V3 balances the experts with one number each
    std::vector<int> dense_layers; // those with an ordinary MLP of width ModelSpec::intermediate
    bool operator==(const Experts &) const = default;
};

// Attention that looks back at most `tokens`.
struct Window {
    int tokens = 0;
    std::vector<int> full_layers; // those that look back at everything
    bool operator==(const Window &) const = default;
};

// One number for all layers, or one for each.
using PerLayer = std::vector<double>;
inline double of_layer(const PerLayer &values, int layer) {
    return values.size() == 1 ? values.front() : values[static_cast<std::size_t>(layer)];
}

// Seconds of one micro-batch on one slot of GPUs of this type.
struct LayerSeconds {
    std::string gpu; // "" = any type
    PerLayer forward, backward;
    bool operator==(const LayerSeconds &) const = default;
};

// Costs by themselves, without a shape behind them. Bytes are of a whole slot.
struct ExplicitModel {
    std::string name;
    int sequence = 1;                // tokens
    int tp = 0;                      // the slot that the numbers hold for; 0 = any
    std::vector<LayerSeconds> times; // the first is for any type
    Bytes boundary = 0;
    PerLayer gradient, state, activation;
    bool operator==(const ExplicitModel &) const = default;
};

enum class Recompute { none, selective, full };

// Seconds that a trainer was seen to take; what the formulas say is scaled to it.
struct Measurement {
    LayerSeconds layers;
    Seconds head_forward = 0, head_backward = 0; // 0: scaled as the layers are
    int tp = 1;
    int micro_batch = 1;
    int sequence = 0;
    Recompute recompute = Recompute::none;
    bool operator==(const Measurement &) const = default;
};

// A decoder-only transformer, as read from a Hugging Face config.json.
struct ModelSpec {
    std::string architecture; // "LlamaForCausalLM", "GPT2LMHeadModel"
    int layers = 0;
    int hidden = 0;
    int intermediate = 0; // width of the MLP
    int heads = 0;
    int kv_heads = 0; // < heads: grouped-query attention
    int head_dim = 0;
    int vocab = 0;
    int positions = 0;      // learned position embeddings (GPT-2); 0 with rotary ones
    bool gated_mlp = false; // three MLP matrices (Llama) instead of two (GPT-2, with LayerNorm and biases)
    bool tied_embeddings = false;
    int norms = 2;               // of a layer, each as wide as the hidden state
    bool query_key_norm = false; // two more, as wide as a head
    bool query_key_value_bias = false, output_bias = false, mlp_bias = false; // with a gated MLP
    std::optional<LatentAttention> latent;
    std::optional<Experts> experts;
    std::optional<Window> window;
    std::vector<Measurement> measurements;
    std::optional<ExplicitModel> costs; // then nothing above counts but `layers`
    bool operator==(const ModelSpec &) const = default;
};

} // namespace spider::model
