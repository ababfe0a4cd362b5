// SPDX-License-Identifier: GPL-3.0-or-later
// Megatron-LM: megatron/training/arguments.py, core/transformer/pipeline_parallel_layer_layout.py and
// core/parallel_state.py of August 2026.
#include "launch/crossing.h"
#include "launch/trainers.h"
#include "util/text.h"

#include <algorithm>

namespace spider::launch {

namespace {

constexpr int chunks = 2; // of each device, where only the interleaved schedule carries the depths

// "Ett|tt|ttL": stars and parentheses, which the grammar has too, are for shells to stumble over.
std::string layout_of(const std::vector<int> &layers) {
    std::string text = "E";
    for (std::size_t i = 0; i < layers.size(); ++i)
        text += (i == 0 ? "" : "|") + std::string(static_cast<std::size_t>(layers[i]), 't');
    return text + "L";
}

// All devices' first chunks, then all their second ones.
Result<std::vector<int>> halved(const Plan &plan) {
    std::vector<int> layers(static_cast<std::size_t>(chunks) * plan.stages.size());
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const int all = layers_in(plan.stages[i]);
        if (all < chunks)
            return Error{Errc::invalid,
                         "Megatron-LM's interleaved schedule needs two layers in each stage, stage " +
                             std::to_string(i) + " has one: use depth=stages, or a smaller pp"};
        layers[i] = (all + 1) / chunks;
        layers[plan.stages.size() + i] = all / chunks;
    }
    return layers;
}

// The smallest group of micro-batches with which every stage has as many in flight as planned. Of device i
// are 2(P-i-1) + (chunks-1) * group + 1 chunks in flight; core/pipeline_parallel/schedules.py bounds the
// group and what is left over by it.
Result<int> group_of(const Plan &plan) {
    int group = plan.pp;
    for (int i = 0; i < plan.pp; ++i)
        group = std::max(group,
                         chunks * plan.stages[static_cast<std::size_t>(i)].depth - 1 - 2 * (plan.pp - i - 1));
    for (; group <= plan.micro_batches; ++group) {
        const int rest = plan.micro_batches % group;
        if (rest == 0 || rest >= plan.pp) return group;
    }
    return depths_not_kept(plan, "Megatron-LM");
}

Result<void> add_pipeline(const Plan &plan, Launch &launch) {
    std::vector<int> layers;
    for (const auto &stage : plan.stages)
        layers.push_back(layers_in(stage));
    if (has_usual_depths(plan)) {
        add(launch, "--pipeline-model-parallel-layout", layout_of(layers));
        return {};
    }
    for (int i = 0; i < plan.pp; ++i)
        if (plan.stages[static_cast<std::size_t>(i)].depth < std::min(plan.pp - i, plan.micro_batches))
            return depths_not_kept(plan, "Megatron-LM");
    auto halves = halved(plan);
    if (!halves) return std::move(halves).error();
    auto group = group_of(plan);
    if (!group) return std::move(group).error();
    add(launch, "--pipeline-model-parallel-layout", layout_of(*halves));
    add(launch, "--microbatch-group-size-per-virtual-pipeline-stage", *group);
    launch.notes.push_back(
        "these depths need Megatron-LM's interleaved schedule: each stage holds two runs of layers, "
        "and a micro-batch crosses every boundary twice and once from the last stage to the first, "
        "which the plan's time does not count");
    return {};
}

void add_recompute(const Plan &plan, Launch &launch) {
    if (plan.recompute == Recompute::none) return;
    add(launch, "--recompute-granularity", plan.recompute == Recompute::full ? "full" : "selective");
    if (plan.recompute != Recompute::full) return;
    add(launch, "--recompute-method", "uniform");
    add(launch, "--recompute-num-layers", 1);
}

// NCCL uses one kind of network in a communicator: those that cross sites take sockets, the others what there
// is.
void add_networks(const Plan &plan, Launch &launch) {
    if (plan.parts.size() < 2) return;
    const Sites sites(plan);
    std::vector<std::string> groups;
    if (sites.pipelines_cross()) groups.insert(groups.end(), {"pp", "mp", "tp_ep_pp"});
    if (sites.ends_cross()) groups.insert(groups.end(), {"embd", "pos_embd"});
    if (sites.members_cross())
        groups.insert(groups.end(),
                      {"dp", "dp_cp", "intra_dp_cp", "tp_dp", "tp_dp_cp", "ep_dp", "intra_ep_dp"});
    groups.emplace_back("intra_dist_opt_instance"); // all ranks
    std::string text;
    for (const auto &group : groups)
        text += group + ":\n  net_name: socket\n";
    launch.files.push_back({"nccl.yaml", text});
    add(launch, "--nccl-communicator-config-path", "@nccl.yaml@");
}

} // namespace

Result<Launch> megatron(const Plan &plan) {
    Launch launch;
    add_sizes(launch, plan);
    if (plan.pp > 1)
        if (auto added = add_pipeline(plan, launch); !added) return std::move(added).error();
    add_recompute(plan, launch);
    if (plan.dp > 1) launch.arguments.emplace_back("--use-distributed-optimizer");
    add_networks(plan, launch);
    return launch;
}

} // namespace spider::launch
