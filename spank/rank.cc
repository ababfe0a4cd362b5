// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/rank.h"

#include <algorithm>

namespace spider::spank {
namespace {

std::size_t index_of(const Place &place) {
    const auto found = std::find(place.nodes.begin(), place.nodes.end(), place.node);
    return static_cast<std::size_t>(found - place.nodes.begin());
}

// Read before a device is chosen: NVIDIA (MIG too), AMD, Intel.
constexpr const char *device_lists[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                        "ZE_AFFINITY_MASK"};

std::string counts(int has, int wants) {
    return std::to_string(has) + (has == 1 ? " task" : " tasks") + ", the plan " + std::to_string(wants);
}

void add(Environment &environment, const char *name, int value) {
    environment.emplace_back(name, std::to_string(value));
}

// Gloo takes one name, where NCCL takes lists, prefixes and what to leave out.
bool is_one_name(std::string_view interface) {
    return !interface.empty() && interface.find_first_of("^=,:") == std::string_view::npos;
}

void add_interfaces(Environment &environment, const Carriers &carriers, const Place &place) {
    const auto &wanted = carriers.interface;
    const auto exact = std::string_view(wanted).substr(wanted.starts_with('=') ? 1 : 0);
    const auto gloo = is_one_name(exact) ? std::string(exact) : place.interface;
    const auto nccl = !wanted.empty()           ? wanted
                      : place.interface.empty() ? std::string()
                                                : "=" + place.interface;
    if (!gloo.empty()) environment.emplace_back("GLOO_SOCKET_IFNAME", gloo);
    if (!nccl.empty()) environment.emplace_back("NCCL_SOCKET_IFNAME", nccl);
}

// torchrun's own names: static rendezvous keeps rank 0 at the master, c10d gives ranks in order of arrival.
void add_torchrun(Environment &environment, const Carriers &carriers, const Master &master,
                  std::size_t node) {
    add(environment, "PET_NNODES", carriers.all_nodes);
    add(environment, "PET_NODE_RANK", carriers.node_ranks[node]);
    add(environment, "PET_NPROC_PER_NODE", carriers.gpus_on(node));
    environment.emplace_back("PET_MASTER_ADDR", master.address);
    add(environment, "PET_MASTER_PORT", master.port);
    environment.emplace_back("PET_RDZV_BACKEND", "static");
}

// What torch and the trainers read of the node.
void add_node(Environment &environment, const Carriers &carriers, const Master &master, const Place &place,
              std::size_t node) {
    add(environment, "NODE_RANK", carriers.node_ranks[node]);
    add(environment, "GROUP_RANK", carriers.node_ranks[node]);
    environment.emplace_back("MASTER_ADDR", master.address);
    add(environment, "MASTER_PORT", master.port);
    add_interfaces(environment, carriers, place);
    if (carriers.per_node || carriers.world == carriers.all_nodes)
        add_torchrun(environment, carriers, master, node);
}

// Of a task that has a rank of its own.
void add_rank(Environment &environment, const Carriers &carriers, const Place &place, const Slot &slot) {
    const int tp_rank = place.local_id % carriers.tp;
    const auto stage = static_cast<std::size_t>(slot.stage);
    // The order of Megatron, torchtitan and DeepSpeed alike: tensor fastest, then data, then pipeline.
    add(environment, "RANK", tp_rank + carriers.tp * (slot.dp + carriers.dp * slot.stage));
    add(environment, "WORLD_SIZE", carriers.world);
    add(environment, "LOCAL_RANK", place.single_gpu && carriers.single_gpu_view ? 0 : place.local_id);
    add(environment, "LOCAL_WORLD_SIZE", place.local_tasks);
    add(environment, "SPIDERFLOW_STAGE", slot.stage);
    add(environment, "SPIDERFLOW_DP_RANK", slot.dp);
    add(environment, "SPIDERFLOW_TP_RANK", tp_rank);
    add(environment, "SPIDERFLOW_FIRST_LAYER", carriers.layers[stage].first);
    add(environment, "SPIDERFLOW_LAST_LAYER", carriers.layers[stage].last);
    add(environment, "SPIDERFLOW_DEPTH", carriers.depths[stage]);
}

std::string depths_text(const Carriers &carriers) {
    std::string text;
    for (const int depth : carriers.depths)
        text += (text.empty() ? "" : ",") + std::to_string(depth);
    return text;
}

void add_plan(Environment &environment, const Carriers &carriers) {
    environment.emplace_back(own_job, carriers.job);
    add(environment, "SPIDERFLOW_ATTEMPT", carriers.attempt);
    environment.emplace_back("SPIDERFLOW_SITE", carriers.site);
    environment.emplace_back("SPIDERFLOW_TRAINER", carriers.trainer);
    add(environment, "SPIDERFLOW_NSTAGES", carriers.pp);
    add(environment, "SPIDERFLOW_DP_SIZE", carriers.dp);
    add(environment, "SPIDERFLOW_TP_SIZE", carriers.tp);
    add(environment, "SPIDERFLOW_NLAYERS", carriers.layers.back().last + 1);
    environment.emplace_back("SPIDERFLOW_LAYERS", carriers.layers_text);
    environment.emplace_back("SPIDERFLOW_DEPTHS", depths_text(carriers));
    add(environment, "SPIDERFLOW_MICROBATCH", carriers.micro_batch);
    add(environment, "SPIDERFLOW_MICROBATCHES", carriers.micro_batches);
    environment.emplace_back("SPIDERFLOW_RECOMPUTE", carriers.recompute);
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

std::optional<int> visible_devices(const Lookup &variable) {
    for (const char *name : device_lists)
        if (const auto list = variable(name); list && !list->empty())
            return 1 + static_cast<int>(std::count(list->begin(), list->end(), ','));
    return std::nullopt;
}

bool is_master(const Carriers &carriers, const Place &place) {
    const auto node = index_of(place);
    if (carriers.node_ranks[node] != 0) return false;
    if (carriers.per_node) return true;
    return carriers.nodes[node][static_cast<std::size_t>(place.local_id / carriers.tp)] == Slot{} &&
           place.local_id % carriers.tp == 0;
}

Environment rank_environment(const Carriers &carriers, const Master &master, const Place &place) {
    const auto node = index_of(place);
    Environment environment;
    if (!carriers.per_node)
        add_rank(environment, carriers, place,
                 carriers.nodes[node][static_cast<std::size_t>(place.local_id / carriers.tp)]);
    add_node(environment, carriers, master, place, node);
    add_plan(environment, carriers);
    return environment;
}

} // namespace spider::spank
