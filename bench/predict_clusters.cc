// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_clusters.h"

#include "plan/cost.h"
#include "util/text.h"

namespace spider::bench {

namespace {

constexpr double a100_memory_bandwidth = 2039e9; // bytes/s; data sheet, 80 GB SXM
constexpr double selene_gbps = 8 * 200;          // HDR InfiniBand, one port to each GPU
constexpr double llama_gbps = 8 * 400;           // RoCE, one port to each GPU

// What it costs more than the formulas' kernel: the other half of the two products, and 5*a*s*s bytes of
// softmax, dropout mask and dropout (Korthikanti et al. 2022, section 4.1), each written and read once by a
// forward, twice as much by a backward.
Measurement with_scores(const JobSpec &job, const GpuType &gpu, int tp) {
    auto times = plan::layer_times(job, gpu, tp, 0);
    const double bytes = 5.0 * job.model.heads * job.sequence * job.sequence * job.micro_batch;
    const Seconds more = plan::attention_flops(job, 0) / (gpu.peak_flops * gpu.efficiency * tp) +
                         2 * bytes / tp / a100_memory_bandwidth;
    times.forward += more;
    times.backward += (job.recompute == Recompute::full ? 3 : 2) * more;
    const auto head = plan::head_times(job, gpu, tp);
    return {.layers = {gpu.name, {times.forward}, {times.backward}},
            .head_forward = head.forward,
            .head_backward = head.backward,
            .tp = tp,
            .micro_batch = job.micro_batch,
            .sequence = job.sequence,
            .recompute = job.recompute};
}

// The table does not say: the least number above 1 that divides the layers of a stage.
int chunks_of(const MegatronRow &row) {
    const int layers = row.layers / row.sizes.pp;
    for (int chunks = 2; row.sizes.pp > 1 && chunks <= layers; ++chunks)
        if (layers % chunks == 0) return chunks;
    return 1;
}

Run megatron_run(const MegatronRow &row, Attention attention, double efficiency) {
    const auto gpu = gpu_of("a100", efficiency);
    JobSpec job{.model = gpt(row.layers, row.hidden, row.heads, row.vocab, row.sequence),
                .sequence = row.sequence,
                .global_batch = row.global_batch,
                .trainer = Trainer::megatron,
                .precision = Precision::fp16,
                .recompute = Recompute::full};
    if (attention == Attention::scores) job.model.measurements = {with_scores(job, gpu, row.sizes.tp)};
    return in_data_centre(std::move(job), gpu, row.sizes, chunks_of(row), selene_gbps);
}

ModelSpec llama_405b() {
    return {.architecture = "LlamaForCausalLM",
            .layers = 126,
            .hidden = 16384,
            .intermediate = 53248,
            .heads = 128,
            .kv_heads = 8,
            .head_dim = 128,
            .vocab = 128256,
            .gated_mlp = true};
}

// Context parallelism: each of the `cp` ranks has its share of the tokens, as a pipeline of its own would,
// but looks back at the whole sequence, and gathers all keys and values: in the forward, in the backward
// again, and their gradients are scattered back.
Measurement with_context(const JobSpec &job, const LlamaRow &row, const GpuType &gpu) {
    auto whole = job;
    whole.sequence = row.sequence;
    auto times = plan::layer_times(whole, gpu, row.tp, 0);
    const auto &model = job.model;
    const Bytes keys_values = 2.0 * row.sequence * model.kv_heads * model.head_dim * 2;
    const Seconds gather = keys_values * (row.cp - 1) / row.cp / (llama_gbps * 1e9 / 8);
    const auto head = plan::head_times(job, gpu, row.tp);
    return {.layers = {gpu.name, {times.forward / row.cp + gather}, {times.backward / row.cp + 2 * gather}},
            .head_forward = head.forward,
            .head_backward = head.backward,
            .tp = row.tp,
            .micro_batch = 1,
            .sequence = job.sequence};
}

Prediction predict_llama_row(const LlamaRow &row, double efficiency) {
    const auto gpu = gpu_of("h100", efficiency);
    const int members = row.gpus / (row.tp * row.pp); // data and context parallel
    JobSpec job{
        .model = llama_405b(), .sequence = row.sequence / row.cp, .global_batch = members * row.batch_per_dp};
    auto whole = job;
    whole.sequence = row.sequence;
    if (row.cp > 1) job.model.measurements = {with_context(job, row, gpu)};
    const double sequences = static_cast<double>(members) / row.cp * row.batch_per_dp;
    const double flops =
        3 * sequences * (job.model.layers * plan::layer_flops(whole, 0) + plan::head_flops(whole));
    constexpr int chunks = 8; // first chunk: only the embedding; last chunk: only the head
    const auto run = in_data_centre(std::move(job), gpu, {row.tp, row.pp, members}, chunks, llama_gbps);
    const auto name = std::to_string(row.gpus) + " H100, sequence " + std::to_string(row.sequence);
    return {name, row.teraflops, flops / seconds_of(run) / row.gpus / 1e12};
}

} // namespace

std::vector<Prediction> predict_megatron(const Measured &measured, Attention attention, double efficiency) {
    std::vector<Prediction> predictions;
    for (const auto &row : measured.megatron)
        predictions.push_back({util::number(row.billions) + "B, TP " + std::to_string(row.sizes.tp) + " PP " +
                                   std::to_string(row.sizes.pp) + " DP " + std::to_string(row.sizes.dp),
                               row.seconds, seconds_of(megatron_run(row, attention, efficiency))});
    return predictions;
}

std::vector<Prediction> predict_llama(const Measured &measured, double efficiency) {
    std::vector<Prediction> predictions;
    for (const auto &row : measured.llama)
        predictions.push_back(predict_llama_row(row, efficiency));
    return predictions;
}

} // namespace spider::bench
