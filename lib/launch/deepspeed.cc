// SPDX-License-Identifier: GPL-3.0-or-later
// DeepSpeed (deepspeed/runtime/pipe/module.py of August 2026) in the names of Megatron-DeepSpeed's options,
// and nanotron: neither has a flag for the bounds of stages.
#include "launch/trainers.h"

#include <algorithm>

namespace spider::launch {

namespace {

bool is_even(const Plan &plan) {
    return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage &stage) {
        return layers_in(stage) == layers_in(plan.stages.front());
    });
}

constexpr int one_node = 8; // src/nanotron/parallel/context.py

std::size_t nodes_of(const Plan &plan) {
    std::size_t nodes = 0;
    for (const auto &part : plan.parts)
        nodes += part.nodes.size();
    return nodes;
}

bool has_equal_nodes(const Plan &plan) {
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            if (node.size() != plan.parts.front().nodes.front().size()) return false;
    return true;
}

std::string layer_counts(const Plan &plan) {
    std::string text;
    for (const auto &stage : plan.stages)
        text += (text.empty() ? "" : ",") + std::to_string(layers_in(stage));
    return text;
}

} // namespace

Result<Launch> deepspeed(const Plan &plan) {
    if (!has_usual_depths(plan)) return depths_not_kept(plan, "DeepSpeed");
    Launch launch;
    add_sizes(launch, plan);
    if (plan.pp == 1) return launch;
    launch.notes.push_back(
        is_even(plan) ? "every stage holds " + layer_counts(plan).substr(0, layer_counts(plan).find(',')) +
                            " layers: PipelineModule needs partition_method='type:CLASS', CLASS being the "
                            "class of a layer"
                      : "the stages hold " + layer_counts(plan) +
                            " layers, which no partition_method says: take the bounds from "
                            "SPIDERFLOW_LAYERS, as examples/deepspeed does");
    return launch;
}

Result<Launch> nanotron(const Plan &plan) {
    if (!has_usual_depths(plan)) return depths_not_kept(plan, "nanotron");
    if (!is_even(plan))
        return Error{Errc::invalid, "nanotron splits layers by their cost and cannot be told " +
                                        layer_counts(plan) + ": use layers=even"};
    if (!has_consecutive_ranks(plan) || !has_equal_nodes(plan))
        return Error{Errc::invalid,
                     "nanotron wants consecutive ranks on each node, and the same number on all: use "
                     "sites and sizes that give them, such as dp=1"};
    if (world_size(plan) <= one_node && nodes_of(plan) > 1)
        return Error{Errc::invalid, "nanotron takes " + std::to_string(world_size(plan)) +
                                        " ranks for those of one node (up to " + std::to_string(one_node) +
                                        "), the plan has " + std::to_string(nodes_of(plan)) + " nodes"};
    Launch launch;
    launch.notes.push_back("nanotron reads its sizes from its YAML only: dp: " + std::to_string(plan.dp) +
                           ", pp: " + std::to_string(plan.pp) + ", tp: " + std::to_string(plan.tp) +
                           ", micro_batch_size: " + std::to_string(plan.micro_batch) +
                           ", batch_accumulation_per_replica: " + std::to_string(plan.micro_batches) +
                           ", sequence_length: " + std::to_string(plan.sequence));
    return launch;
}

} // namespace spider::launch
