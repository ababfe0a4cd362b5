// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/evaluate.h"

#include "plan/cost.h"
#include "plan/layers.h"

#include <algorithm>

namespace spider::plan {

namespace {

// The pool of each stage.
std::vector<const Pool *> pools_of(const Candidate &candidate) {
    std::vector<const Pool *> pools;
    for (const auto &run : candidate.runs)
        pools.insert(pools.end(), static_cast<std::size_t>(run.stages), run.pool);
    return pools;
}

StageShape shape(std::size_t stage, std::size_t stages, int layers, int depth) {
    return {.layers = layers, .depth = depth, .first = stage == 0, .last = stage + 1 == stages};
}

// Depth of a stage where no link needs hiding.
int usual_depth(std::size_t stage, std::size_t stages, int micro_batches) {
    return std::min(static_cast<int>(stages - stage), micro_batches);
}

} // namespace

int Candidate::pp() const {
    int stages = 0;
    for (const auto &run : runs)
        stages += run.stages;
    return stages;
}

int Evaluator::micro_batches(const Candidate &candidate) const {
    return spec_.global_batch / (spec_.micro_batch * candidate.dp);
}

bool Evaluator::linked(const Pool &a, const Pool &b) const {
    return federation_.link(a.site, b.site) && federation_.link(b.site, a.site);
}

// All D pipelines cross the same link at once.
std::optional<Boundary> Evaluator::boundary(const Pool &from, const Pool &to, int dp) const {
    const auto bytes = boundary_bytes(spec_);
    if (from.site == to.site)
        return Boundary{lan_latency, bytes / lan_bandwidth, lan_latency, bytes / lan_bandwidth};
    const auto there = federation_.link(from.site, to.site);
    const auto back = federation_.link(to.site, from.site);
    if (!there || !back) return std::nullopt;
    const auto occupancy = [&](const Link &link) { return bytes * dp / (link.bandwidth_gbps * 1e9 / 8); };
    return Boundary{there->rtt_ms / 2000, occupancy(*there), back->rtt_ms / 2000, occupancy(*back)};
}

std::optional<Pipeline> Evaluator::pipeline(const Candidate &candidate,
                                            const std::vector<int> &layers) const {
    const auto pools = pools_of(candidate);
    Pipeline pipeline;
    for (std::size_t i = 0; i < pools.size(); ++i) {
        const auto each = layer_times(spec_, pools[i]->gpu, candidate.tp);
        StageTime time{layers[i] * each.forward, layers[i] * each.backward};
        if (i + 1 == pools.size()) {
            const auto head = head_times(spec_, pools[i]->gpu, candidate.tp);
            time.forward += head.forward;
            time.backward += head.backward;
        }
        pipeline.stages.push_back(time);
        if (i == 0) continue;
        const auto link = boundary(*pools[i - 1], *pools[i], candidate.dp);
        if (!link) return std::nullopt;
        pipeline.boundaries.push_back(*link);
    }
    return pipeline;
}

Seconds Evaluator::floor(const Candidate &candidate) const {
    double rate = 0; // layers per second, all stages
    Seconds head = 0;
    for (const auto &run : candidate.runs) {
        rate += run.stages / layer_times(spec_, run.pool->gpu, candidate.tp).both();
        head = head_times(spec_, run.pool->gpu, candidate.tp).both();
    }
    const auto &last = *candidate.runs.back().pool;
    const double head_in_layers = head / layer_times(spec_, last.gpu, candidate.tp).both();
    return micro_batches(candidate) * (spec_.model.layers + head_in_layers) / rate;
}

namespace {

// Layers by speed within memory: room for the usual depth, or else for one micro-batch.
std::vector<int> layers_of(const JobSpec &spec, const Candidate &candidate, const Memory &memory,
                           int micro_batches) {
    const auto pools = pools_of(candidate);
    std::vector<int> layers;
    for (const bool usual : {true, false}) {
        std::vector<Vessel> vessels;
        for (std::size_t i = 0; i < pools.size(); ++i) {
            const auto &gpu = pools[i]->gpu;
            const int depth = usual ? usual_depth(i, pools.size(), micro_batches) : 1;
            const bool last = i + 1 == pools.size();
            vessels.push_back({.each = layer_times(spec, gpu, candidate.tp).both(),
                               .base = last ? head_times(spec, gpu, candidate.tp).both() : 0,
                               .most = memory.layers_within(gpu.memory, shape(i, pools.size(), 1, depth))});
        }
        layers = fill(vessels, spec.model.layers);
        if (!layers.empty()) break;
    }
    return layers;
}

// What pipeline_seconds() sums, by its causes.
std::vector<Term> pipeline_terms(const Pipeline &pipeline, const Period &tau, int micro_batches) {
    Seconds compute = 0, slowest = 0;
    for (const auto &stage : pipeline.stages) {
        compute += stage.both();
        slowest = std::max(slowest, stage.both());
    }
    return {{"compute", micro_batches * slowest},
            {"bubble", compute - slowest},
            {"first pass over links", one_pass(pipeline) - compute},
            {"waiting for links", (micro_batches - 1) * (tau.seconds - slowest)}};
}

} // namespace

std::optional<Priced> Evaluator::price(const Candidate &candidate) const {
    const auto pools = pools_of(candidate);
    const Memory memory(spec_, candidate.tp, candidate.dp);
    const int batches = micro_batches(candidate);
    Priced priced;
    priced.layers = layers_of(spec_, candidate, memory, batches);
    if (priced.layers.empty()) return std::nullopt;
    const auto tied = tied_gradients(candidate);
    auto pipeline = this->pipeline(candidate, priced.layers);
    if (!pipeline || !tied) return std::nullopt;
    priced.pipeline = std::move(*pipeline);

    std::vector<int> caps;
    for (std::size_t i = 0; i < pools.size(); ++i) {
        const auto fits =
            memory.depth_within(pools[i]->gpu.memory, shape(i, pools.size(), priced.layers[i], 1));
        caps.push_back(std::clamp(fits, 1, batches));
    }
    priced.depths = hiding_depths(priced.pipeline, caps);
    for (std::size_t i = 0; i < pools.size(); ++i)
        priced.memory.push_back(memory.stage(shape(i, pools.size(), priced.layers[i], priced.depths[i])));

    const auto tau = period(priced.pipeline, priced.depths, batches);
    priced.iteration.terms = pipeline_terms(priced.pipeline, tau, batches);
    priced.iteration.terms.push_back({"gradients", gradients(candidate, priced)});
    priced.iteration.terms.push_back({"tied embedding", *tied});
    for (auto &term : priced.iteration.terms) {
        term.seconds = std::max(term.seconds, 0.0); // rounding
        priced.iteration.seconds += term.seconds;
    }
    priced.iteration.bottleneck = bottleneck(candidate, priced, tau);
    return priced;
}

// A stage starts its all-reduce when its own last backward is done; what is before it in the pipeline ends
// later.
Seconds Evaluator::gradients(const Candidate &candidate, const Priced &priced) const {
    if (candidate.dp < 2) return 0;
    const auto pools = pools_of(candidate);
    Seconds slack = 0, exposed = 0;
    for (std::size_t i = 0; i < pools.size(); ++i) {
        double parameters = priced.layers[i] * layer_parameters(spec_.model);
        if (i == 0) parameters += embedding_parameters(spec_.model);
        if (i + 1 == pools.size() && !(i == 0 && spec_.model.tied_embeddings))
            parameters += head_parameters(spec_.model);
        const bool one_node = pools[i]->nodes.front().gpus >= candidate.dp * candidate.tp;
        const double bandwidth = one_node ? pools[i]->gpu.fabric * candidate.tp : lan_bandwidth;
        const auto reduce = ring_seconds(parameters * bytewise(spec_.precision).gradient, candidate.dp,
                                         bandwidth, lan_latency);
        exposed = std::max(exposed, reduce - slack);
        slack += priced.pipeline.stages[i].backward;
        if (i < priced.pipeline.boundaries.size())
            slack +=
                priced.pipeline.boundaries[i].back_latency + priced.pipeline.boundaries[i].back_occupancy;
    }
    return exposed;
}

// First and last stage hold a copy each of tied embeddings and add up its gradients; nothing without a link
// for it.
std::optional<Seconds> Evaluator::tied_gradients(const Candidate &candidate) const {
    if (!spec_.model.tied_embeddings || candidate.pp() < 2) return 0;
    const auto &first = *candidate.runs.front().pool, &last = *candidate.runs.back().pool;
    const Bytes bytes =
        static_cast<double>(spec_.model.vocab) * spec_.model.hidden * bytewise(spec_.precision).gradient;
    if (first.site == last.site) return ring_seconds(bytes, 2, lan_bandwidth, lan_latency);
    const auto there = federation_.link(first.site, last.site),
               back = federation_.link(last.site, first.site);
    if (!there || !back) return std::nullopt;
    const double bandwidth = std::min(there->bandwidth_gbps, back->bandwidth_gbps) * 1e9 / 8 / candidate.dp;
    return ring_seconds(bytes, 2, bandwidth, std::max(there->rtt_ms, back->rtt_ms) / 2000);
}

Bottleneck Evaluator::bottleneck(const Candidate &candidate, const Priced &priced, const Period &tau) const {
    const auto pools = pools_of(candidate);
    const auto &terms = priced.iteration.terms;
    const auto seconds = [&](std::size_t i) { return terms[i].seconds; };
    if (seconds(4) + seconds(5) > seconds(0) + seconds(1) + seconds(2) + seconds(3))
        return {"gradients", "", ""};
    const auto &links = priced.pipeline.boundaries;
    auto link = static_cast<std::size_t>(tau.from);
    if (tau.kind == Period::Kind::round_trip) // the dearest link of the cycle
        for (auto i = link; i < static_cast<std::size_t>(tau.to); ++i)
            if (links[i].both() > links[link].both()) link = i;
    if (tau.kind != Period::Kind::stage && pools[link]->site != pools[link + 1]->site)
        return {"link", pools[link]->name, pools[link + 1]->name};
    auto stage = static_cast<std::size_t>(tau.from);
    for (auto i = stage; i <= static_cast<std::size_t>(tau.to); ++i)
        if (priced.pipeline.stages[i].both() > priced.pipeline.stages[stage].both()) stage = i;
    return {"stage", std::to_string(stage), ""};
}

std::vector<Miss> Evaluator::misses(const Candidate &candidate) const {
    const auto pools = pools_of(candidate);
    const Memory memory(spec_, candidate.tp, candidate.dp);
    std::vector<Vessel> vessels; // share of the GPU's memory that is taken
    for (std::size_t i = 0; i < pools.size(); ++i) {
        const auto one = memory.stage(shape(i, pools.size(), 1, 1));
        const auto each = memory.stage(shape(i, pools.size(), 2, 1)) - one;
        const auto has = pools[i]->gpu.memory;
        vessels.push_back({.each = each / has, .base = (one - each) / has, .most = spec_.model.layers});
    }
    const auto layers = fill(vessels, spec_.model.layers);
    std::vector<Miss> misses;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto needed = memory.stage(shape(i, pools.size(), layers[i], 1));
        const auto &gpu = pools[i]->gpu;
        if (needed > gpu.memory)
            misses.push_back({gpu.name, needed, gpu.memory, candidate.tp, candidate.pp(), candidate.dp});
    }
    return misses;
}

namespace {

Part part_of(const Run &run, const Candidate &candidate, int first_stage) {
    Part part{.site = run.pool->name, .gpu = run.pool->gpu.name};
    int next = first_stage * candidate.dp; // slots in order of stage, then member
    for (const int count : spread(*run.pool, candidate.tp, run.stages * candidate.dp)) {
        auto &node = part.nodes.emplace_back();
        for (int i = 0; i < count; ++i, ++next)
            node.push_back({next / candidate.dp, next % candidate.dp});
    }
    return part;
}

} // namespace

Plan Evaluator::plan(const Candidate &candidate, const Priced &priced) const {
    Plan plan{.outcome = Outcome::planned,
              .tp = candidate.tp,
              .pp = candidate.pp(),
              .dp = candidate.dp,
              .micro_batch = spec_.micro_batch,
              .micro_batches = micro_batches(candidate),
              .recompute = spec_.recompute,
              .iteration = priced.iteration};
    plan.iteration.tokens_per_second =
        static_cast<double>(spec_.global_batch) * spec_.sequence / plan.iteration.seconds;
    int layer = 0;
    for (std::size_t i = 0; i < priced.layers.size(); ++i) {
        plan.stages.push_back({.first_layer = layer,
                               .last_layer = layer + priced.layers[i] - 1,
                               .depth = priced.depths[i],
                               .forward = priced.pipeline.stages[i].forward,
                               .backward = priced.pipeline.stages[i].backward,
                               .memory = priced.memory[i]});
        layer += priced.layers[i];
    }
    int stage = 0;
    for (const auto &run : candidate.runs) {
        plan.parts.push_back(part_of(run, candidate, stage));
        stage += run.stages;
    }
    return plan;
}

} // namespace spider::plan
