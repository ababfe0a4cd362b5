// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/rank.h"

#include <algorithm>

namespace spider::spank {
namespace {

std::size_t index_of(const Place &place) {
    const auto found = std::find(place.nodes.begin(), place.nodes.end(), place.node);
    return static_cast<std::size_t>(found - place.nodes.begin());
}

bool one_task_per_node(const Carriers &carriers) {
    for (std::size_t node = 0; node < carriers.nodes.size(); ++node)
        if (carriers.tasks_on(node) != 1) return false;
    return true;
}

std::string counts(int has, int wants) {
    return std::to_string(has) + (has == 1 ? " task" : " tasks") + ", the plan " + std::to_string(wants);
}

void add(Environment &environment, const char *name, int value) {
    environment.emplace_back(name, std::to_string(value));
}

// What torch and the trainers read. Gloo takes one name; NCCL takes a prefix unless told that it is exact.
void add_torch(Environment &environment, const Carriers &carriers, const Master &master, const Place &place,
               int rank, int node) {
    add(environment, "RANK", rank);
    add(environment, "WORLD_SIZE", carriers.world);
    add(environment, "LOCAL_RANK", place.local_id);
    add(environment, "LOCAL_WORLD_SIZE", place.local_tasks);
    add(environment, "NODE_RANK", node);
    add(environment, "GROUP_RANK", node);
    environment.emplace_back("MASTER_ADDR", master.address);
    add(environment, "MASTER_PORT", master.port);
    if (!place.interface.empty()) {
        environment.emplace_back("GLOO_SOCKET_IFNAME", place.interface);
        environment.emplace_back("NCCL_SOCKET_IFNAME", "=" + place.interface);
    }
    if (!carriers.all_nodes || !one_task_per_node(carriers)) return;
    // torchrun's own names: static rendezvous keeps rank 0 at the master, c10d gives ranks in order of
    // arrival.
    add(environment, "PET_NNODES", *carriers.all_nodes);
    add(environment, "PET_NODE_RANK", node);
    environment.emplace_back("PET_MASTER_ADDR", master.address);
    add(environment, "PET_MASTER_PORT", master.port);
    environment.emplace_back("PET_RDZV_BACKEND", "static");
}

void add_own(Environment &environment, const Carriers &carriers, const Slot &slot, int tp_rank) {
    const auto &layers = carriers.layers[static_cast<std::size_t>(slot.stage)];
    environment.emplace_back(own_job, carriers.job);
    add(environment, "SPIDERFLOW_ATTEMPT", carriers.attempt);
    environment.emplace_back("SPIDERFLOW_SITE", carriers.site);
    add(environment, "SPIDERFLOW_STAGE", slot.stage);
    add(environment, "SPIDERFLOW_NSTAGES", carriers.pp);
    add(environment, "SPIDERFLOW_DP_RANK", slot.dp);
    add(environment, "SPIDERFLOW_DP_SIZE", carriers.dp);
    add(environment, "SPIDERFLOW_TP_RANK", tp_rank);
    add(environment, "SPIDERFLOW_TP_SIZE", carriers.tp);
    add(environment, "SPIDERFLOW_FIRST_LAYER", layers.first);
    add(environment, "SPIDERFLOW_LAST_LAYER", layers.last);
    add(environment, "SPIDERFLOW_NLAYERS", carriers.layers.back().last + 1);
    environment.emplace_back("SPIDERFLOW_LAYERS", carriers.layers_text);
}

} // namespace

std::optional<Mismatch> mismatch(const Carriers &carriers, const Place &place) {
    if (place.nodes.size() != carriers.nodes.size())
        return Mismatch{"the job has " + std::to_string(place.nodes.size()) + " nodes, " + carrier::slots +
                        " " + std::to_string(carriers.nodes.size())};
    if (place.step_tasks != carriers.tasks())
        return Mismatch{"the step has " + counts(place.step_tasks, carriers.tasks()) + " at this site"};
    const auto node = index_of(place);
    if (node == place.nodes.size())
        return Mismatch{"node " + place.node + " is not in the job's node list", false};
    if (place.local_tasks != carriers.tasks_on(node) || place.local_id >= place.local_tasks)
        return Mismatch{"node " + place.node + " has " + counts(place.local_tasks, carriers.tasks_on(node)),
                        false};
    return std::nullopt;
}

Environment rank_environment(const Carriers &carriers, const Master &master, const Place &place) {
    const auto node = index_of(place);
    const auto &slot = carriers.nodes[node][static_cast<std::size_t>(place.local_id / carriers.tp)];
    const int tp_rank = place.local_id % carriers.tp;
    // The order of Megatron, torchtitan and DeepSpeed alike: tensor fastest, then data, then pipeline.
    const int rank = tp_rank + carriers.tp * (slot.dp + carriers.dp * slot.stage);
    Environment environment;
    add_torch(environment, carriers, master, place, rank, carriers.node_base + static_cast<int>(node));
    add_own(environment, carriers, slot, tp_rank);
    return environment;
}

} // namespace spider::spank
