// SPDX-License-Identifier: GPL-3.0-or-later
// Activations that one GPU of a slot keeps. Pure functions of values; plan/workload.h adds up what a stage
// must hold.
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

} // namespace spider::plan
