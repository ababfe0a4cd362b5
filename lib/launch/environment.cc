// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/environment.h"

#include "util/text.h"

#include <algorithm>

namespace spider::launch {

namespace {

std::string slots_of(const Part &part) {
    std::vector<std::string> nodes;
    for (const auto &node : part.nodes) {
        std::vector<std::string> slots;
        for (const auto &slot : node)
            slots.push_back(std::to_string(slot.stage) + "." + std::to_string(slot.dp));
        nodes.push_back(util::join(slots, ","));
    }
    return util::join(nodes, "/");
}

std::string layers_of(const Plan &plan) {
    std::vector<std::string> ranges;
    for (const auto &stage : plan.stages)
        ranges.push_back(std::to_string(stage.first_layer) + "-" + std::to_string(stage.last_layer));
    return util::join(ranges, ",");
}

std::size_t all_nodes(const Plan &plan) {
    std::size_t nodes = 0;
    for (const auto &part : plan.parts)
        nodes += part.nodes.size();
    return nodes;
}

std::size_t nodes_before(const Plan &plan, const Part &part) {
    std::size_t nodes = 0;
    for (const auto &other : plan.parts) {
        if (other.site == part.site) break;
        nodes += other.nodes.size();
    }
    return nodes;
}

} // namespace

Environment carriers(const Plan &plan, const Part &part, const std::string &job, int attempt) {
    return {
        {"SLURM_SPIDERFLOW_JOB", job},
        {"SLURM_SPIDERFLOW_ATTEMPT", std::to_string(attempt)},
        {"SLURM_SPIDERFLOW_SITE", part.site},
        {"SLURM_SPIDERFLOW_WORLD", std::to_string(world_size(plan))},
        {"SLURM_SPIDERFLOW_TP", std::to_string(plan.tp)},
        {"SLURM_SPIDERFLOW_PP", std::to_string(plan.pp)},
        {"SLURM_SPIDERFLOW_DP", std::to_string(plan.dp)},
        {"SLURM_SPIDERFLOW_SLOTS", slots_of(part)},
        {"SLURM_SPIDERFLOW_LAYERS", layers_of(plan)},
        {"SLURM_SPIDERFLOW_NODE_BASE", std::to_string(nodes_before(plan, part))},
        {"SLURM_SPIDERFLOW_NNODES", std::to_string(all_nodes(plan))},
    };
}

Size size_of(const Plan &plan, const Part &part) {
    std::size_t slots = 0, fullest = 0;
    for (const auto &node : part.nodes) {
        slots += node.size();
        fullest = std::max(fullest, node.size());
    }
    const int per_node = static_cast<int>(fullest) * plan.tp;
    return {.nodes = static_cast<int>(part.nodes.size()),
            .tasks = static_cast<int>(slots) * plan.tp,
            .tasks_per_node = per_node,
            .gpus_per_node = per_node};
}

} // namespace spider::launch
