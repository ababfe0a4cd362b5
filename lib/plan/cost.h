// SPDX-License-Identifier: GPL-3.0-or-later
// What a layer of a shape costs: FLOPs, parameters, seconds on a GPU type, bytes on a boundary. Pure
// functions of values; plan/workload.h is what planners ask.
//
// FLOPs of one forward layer: 2 per weight that a token meets (matrix products; of a mixture the router, the
// shared and the chosen experts), and for the two products of attention 2 x T x heads x (query width + value
// width) per position looked at. A causal kernel skips what lies above the diagonal (FlashAttention-2, 3.1):
// s/2 positions, fewer with a window. Backward is twice the forward. recompute=full does the forward again,
// selective only the attention products (Korthikanti et al. 2022, section 5). Tensor parallelism adds two
// all-reduces of T x h per layer and direction (Shoeybi et al. 2019, section 3); it splits experts like dense
// MLPs, expert parallelism is not modelled.
#pragma once

#include "model/job_spec.h"
#include "model/site.h"

namespace spider::plan {

bool has_experts(const ModelSpec &model, int layer);

double layer_parameters(const ModelSpec &model, int layer);
double embedding_parameters(const ModelSpec &model); // tokens and learned positions
double head_parameters(const ModelSpec &model); // final norm and the vocabulary's matrix (the copy, if tied)
double all_parameters(const ModelSpec &model);  // a tied matrix once: what is published as the model's size
double active_parameters(const ModelSpec &model); // of these, what one token meets

double layer_flops(const JobSpec &spec, int layer);     // forward, one micro-batch
double attention_flops(const JobSpec &spec, int layer); // the part that selective recomputation does again
double head_flops(const JobSpec &spec);

struct Bytewise {
    Bytes weight = 2;   // in the training precision
    Bytes gradient = 4; // accumulated and reduced in fp32: what Megatron-LM's arguments.py sets for bf16 only
    Bytes optimizer = 12; // fp32 weights and Adam's two moments; fp32 training has its weights already
    Bytes activation = 2;
};
Bytewise bytewise(Precision precision);

struct Times {
    Seconds forward = 0;
    Seconds backward = 0;
    [[nodiscard]] Seconds both() const { return forward + backward; }
};

// One micro-batch on one slot of `tp` GPUs of this type.
Times layer_times(const JobSpec &spec, const GpuType &gpu, int tp, int layer);
Times head_times(const JobSpec &spec, const GpuType &gpu, int tp);

Bytes boundary_bytes(const JobSpec &spec); // activations of one micro-batch between two stages

// Inside a site, until sites say what their own network does: one 100 Gbit/s port per node, as cloud GPU
// nodes have at least. Nothing here decides between sites, where links are measured.
constexpr double lan_bandwidth = 100e9 / 8;
constexpr Seconds lan_latency = 20e-6;

// Ring all-reduce of `bytes` over `members`.
Seconds ring_seconds(Bytes bytes, int members, double bandwidth, Seconds latency);

} // namespace spider::plan
