// SPDX-License-Identifier: GPL-3.0-or-later
// What one GPU of a slot must hold. Linear in layers and in micro-batches in flight, so that caps follow
// directly.
//
// State: weights, fp32 gradients, and the optimizer's share with ZeRO-1 over the D members: 6 + 12/D bytes
// per parameter in bf16 (Megatron-LM, distributed optimizer). Activations of a layer: the tensors that
// backward reads, as Korthikanti et al. 2022 (table 2) count them with a fused attention kernel: T*h*(10 +
// 24/tp) bytes for GPT; grouped-query and latent attention, gated MLPs and experts change the terms. Of a
// mixture each token counts once for the router, and per chosen expert with its copy on the way in, the
// hidden states that tp splits, and the output that the router's weight multiplies.
#pragma once

#include "model/job_spec.h"
#include "model/site.h"

namespace spider::plan {

// One micro-batch on one GPU of `tp`.
Bytes layer_activations(const JobSpec &spec, int tp, int layer); // all that backward reads
Bytes layer_in_flight(const JobSpec &spec, int tp, int layer);   // what is kept until then
Bytes logits_bytes(const JobSpec &spec, int tp); // in the training precision, and in fp32 for the loss

struct StageShape {
    int layers = 1;
    int depth = 1;      // micro-batches in flight
    bool first = false; // holds the embedding
    bool last = false;  // holds the head
};

// Bytes per GPU for a slot of `tp` GPUs, optimizer state over `dp` members, of a model whose layers are
// alike.
class Memory {
  public:
    Memory(const JobSpec &spec, int tp, int dp);

    [[nodiscard]] Bytes stage(const StageShape &shape) const;
    // The most layers, and the greatest depth, that `available` bytes hold; 0 = not even one.
    [[nodiscard]] int layers_within(Bytes available, StageShape shape) const;
    [[nodiscard]] int depth_within(Bytes available, StageShape shape) const;

  private:
    [[nodiscard]] Bytes fixed(const StageShape &shape) const;

    bool tied_;
    Bytes layer_state_, embedding_state_, head_state_;
    Bytes layer_flight_; // of one layer and one micro-batch in flight
    Bytes working_;      // of the layer that is being recomputed
    Bytes logits_;
};

} // namespace spider::plan
