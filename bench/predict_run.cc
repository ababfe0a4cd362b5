// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_run.h"

#include "model/gpu_table.h"
#include "plan/field.h"
#include "plan/price.h"
#include "plan/schedule.h"

#include <algorithm>
#include <cmath>

namespace spider::bench {

namespace {

constexpr int gpus_per_node = 8;
constexpr double hop_rtt_ms = 0.02; // inside a data centre
constexpr Bytes plenty = 1e15;

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// times[stage][chunk] of the virtual stages.
std::vector<std::vector<plan::StageTime>> chunk_times(const plan::Problem &problem, const Run &run) {
    const auto &shape = run.web.shape;
    const auto &workload = problem.workload(shape.tp);
    const auto layers = layers_of_chunks(run.job.model.layers, shape.stages, run.chunks);
    std::vector<std::vector<plan::StageTime>> times(index(shape.stages));
    int first = 0;
    for (std::size_t i = 0; i < layers.size(); first += layers[i++]) {
        const auto one = workload.times(0, first, first + layers[i] - 1);
        times[i % times.size()].push_back({one.forward, one.backward});
    }
    return times;
}

Seconds tied_seconds(const plan::Priced &priced) { return priced.iteration.terms.back().seconds; }

// price()'s T = max_i (E_i + AR_i) + AR_tied, with the ends of the interleaved schedule.
Seconds interleaved_seconds(const plan::Problem &problem, const Run &run, const plan::Priced &priced) {
    const int stages = run.web.shape.stages;
    const auto schedule = plan::interleaved(stages, run.chunks, problem.micro_batches(run.web.shape.dp()));
    if (!schedule) return plan::never;
    auto boundaries = priced.pipelines.front().boundaries;
    boundaries.push_back(boundaries.front()); // from the last stage to the first: one network for all
    const auto ends = plan::run(*schedule, chunk_times(problem, run), boundaries,
                                problem.blocking_sends() ? Sends::blocking : Sends::async);
    if (!ends) return plan::never;
    Seconds reduced = 0;
    for (std::size_t i = 0; i < ends->size(); ++i)
        reduced = std::max(reduced, (*ends)[i] + priced.gradients[i]);
    return reduced + tied_seconds(priced);
}

} // namespace

double mean_error(const std::vector<Prediction> &predictions) {
    double sum = 0;
    for (const auto &one : predictions)
        sum += std::abs(one.error());
    return sum / static_cast<double>(predictions.size());
}

double worst_error(const std::vector<Prediction> &predictions) {
    double worst = 0;
    for (const auto &one : predictions)
        worst = std::max(worst, std::abs(one.error()));
    return worst;
}

Seconds seconds_of(const Run &run) {
    const auto field = plan::field_of(run.federation, run.job, {});
    const plan::Problem problem(run.federation, run.job, field.pools, field.home);
    const auto priced = plan::price(problem, run.web);
    if (!priced) return plan::never;
    return run.chunks > 1 ? interleaved_seconds(problem, run, *priced) : priced->iteration.seconds;
}

GpuType gpu_of(std::string_view name, double efficiency) {
    auto gpu = model::gpu_type_named(name).value_or(GpuType{.name = std::string(name)});
    gpu.memory = plenty;
    if (efficiency > 0) gpu.efficiency = efficiency;
    return gpu;
}

ModelSpec gpt(int layers, int hidden, int heads, int vocab, int positions) {
    return {.architecture = "GPT2LMHeadModel",
            .layers = layers,
            .hidden = hidden,
            .intermediate = 4 * hidden,
            .heads = heads,
            .kv_heads = heads,
            .head_dim = hidden / heads,
            .vocab = vocab,
            .positions = positions,
            .tied_embeddings = true};
}

std::vector<int> layers_of_chunks(int layers, int stages, int chunks) {
    const int count = stages * chunks;
    const bool even = layers % count == 0;
    std::vector<int> each(index(count), even ? layers / count : (layers + 2) / count);
    if (!even) --each.front(), --each.back();
    return each;
}

Run in_data_centre(JobSpec job, const GpuType &gpu, const ParallelSizes &sizes, int chunks, double gbps) {
    Site site{.name = "data centre"};
    const int nodes = (sizes.tp * sizes.pp * sizes.dp + gpus_per_node - 1) / gpus_per_node;
    site.classes = {{gpu, nodes, nodes, gpus_per_node, gpus_per_node}};
    site.intra_gbps = gbps;
    site.intra_rtt_ms = hop_rtt_ms;
    job.tp = sizes.tp;
    plan::Web web{.shape = {.tp = sizes.tp, .stages = sizes.pp, .groups = 1, .width = sizes.dp},
                  .cells = std::vector(index(sizes.pp), 0),
                  .layers = std::vector(index(sizes.pp), 0)};
    const auto layers = layers_of_chunks(job.model.layers, sizes.pp, chunks);
    for (std::size_t i = 0; i < layers.size(); ++i)
        web.layers[i % web.layers.size()] += layers[i];
    return {*Federation::make({site}, {}), std::move(job), std::move(web), chunks};
}

} // namespace spider::bench
