// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/environment.h"

#include "launch/render.h"
#include "launch/trainers.h"
#include "model/json.h"
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

// Linux takes 128 KiB in one variable of a process (MAX_ARG_STRLEN), its name and the end included.
constexpr std::size_t longest_value = 120'000;

struct Node {
    int rank; // the lowest
    const Part *part;
};

// In global rank order: what torchrun counts nodes by, and where node 0 has rank 0.
std::vector<Node> nodes_by_rank(const Plan &plan) {
    std::vector<Node> nodes;
    for (const auto &part : plan.parts)
        for (const auto &slots : part.nodes)
            nodes.push_back({rank_of(plan, *std::min_element(slots.begin(), slots.end()), 0), &part});
    std::sort(nodes.begin(), nodes.end(), [](const Node &a, const Node &b) { return a.rank < b.rank; });
    return nodes;
}

std::string node_ranks_of(const Plan &plan, const Part &part) {
    const auto nodes = nodes_by_rank(plan);
    std::vector<std::string> ranks;
    for (const auto &slots : part.nodes) {
        const int rank = rank_of(plan, *std::min_element(slots.begin(), slots.end()), 0);
        const auto before =
            std::count_if(nodes.begin(), nodes.end(), [&](const Node &node) { return node.rank < rank; });
        ranks.push_back(std::to_string(before));
    }
    return util::join(ranks, ",");
}

std::string depths_of(const Plan &plan) {
    std::vector<std::string> depths;
    for (const auto &stage : plan.stages)
        depths.push_back(std::to_string(stage.depth));
    return util::join(depths, ",");
}

// The plan first; the schedule not at all, since the plugin writes it.
std::vector<std::string> carried_files(const Plan &plan, const Launch &launch) {
    std::vector<std::string> values;
    const auto add_file = [&](std::string_view name, const std::string &text) {
        values.push_back(std::string(name) + " " + util::escape_line(text));
    };
    if (const auto text = plan_text(plan, longest_value * 3 / 4); !text.empty()) add_file(plan_file, text);
    for (const auto &file : launch.files)
        if (file.name != schedule_file) add_file(file.name, file.text);
    return values;
}

} // namespace

Environment carriers(const Plan &plan, const Part &part, const std::string &job, int attempt) {
    const auto nodes = nodes_by_rank(plan);
    Environment environment{
        {"SLURM_SPIDERFLOW_JOB", job},
        {"SLURM_SPIDERFLOW_ATTEMPT", std::to_string(attempt)},
        {"SLURM_SPIDERFLOW_SITE", part.site},
        {"SLURM_SPIDERFLOW_WORLD", std::to_string(world_size(plan))},
        {"SLURM_SPIDERFLOW_TP", std::to_string(plan.tp)},
        {"SLURM_SPIDERFLOW_PP", std::to_string(plan.pp)},
        {"SLURM_SPIDERFLOW_DP", std::to_string(plan.dp)},
        {"SLURM_SPIDERFLOW_SLOTS", slots_of(part)},
        {"SLURM_SPIDERFLOW_LAYERS", layers_of(plan)},
        {"SLURM_SPIDERFLOW_DEPTHS", depths_of(plan)},
        {"SLURM_SPIDERFLOW_MICROBATCH", std::to_string(plan.micro_batch)},
        {"SLURM_SPIDERFLOW_MICROBATCHES", std::to_string(plan.micro_batches)},
        {"SLURM_SPIDERFLOW_RECOMPUTE", std::string(name(plan.recompute))},
        {"SLURM_SPIDERFLOW_NODE_RANKS", node_ranks_of(plan, part)},
        {"SLURM_SPIDERFLOW_NNODES", std::to_string(nodes.size())},
        {"SLURM_SPIDERFLOW_MASTER_SITE", nodes.empty() ? std::string() : nodes.front().part->site},
        {"SLURM_SPIDERFLOW_TRAINER", std::string(name(plan.trainer))},
        {"SLURM_SPIDERFLOW_LAUNCHER", std::string(name(plan.launcher))},
    };
    if (plan.single_gpu_view) environment.emplace_back("SLURM_SPIDERFLOW_SINGLE_GPU_VIEW", "1");
    const auto launch = render(plan, plan.trainer);
    if (!launch) return environment;
    environment.emplace_back("SLURM_SPIDERFLOW_ARGS", util::join(launch->arguments, " "));
    int number = 0;
    for (auto &value : carried_files(plan, *launch))
        environment.emplace_back("SLURM_SPIDERFLOW_FILE_" + std::to_string(++number), std::move(value));
    return environment;
}

Result<void> can_launch(const Plan &plan) {
    const auto launch = render(plan, plan.trainer);
    if (!launch) return launch.error();
    if (plan.launcher == Launcher::torchrun && !has_consecutive_ranks(plan))
        return Error{Errc::invalid,
                     "torchrun gives each node consecutive ranks, and this plan has others: use "
                     "launcher=srun, a task for each GPU"};
    for (const auto &part : plan.parts)
        for (const auto &[name, value] : carriers(plan, part, "", 1))
            if (value.size() > longest_value)
                return Error{Errc::invalid,
                             "site " + part.site + ": " + name + " has " + std::to_string(value.size()) +
                                 " bytes, a job's environment takes " + std::to_string(longest_value) +
                                 " in a variable: fewer stages, or trainer=plain"};
    return {};
}

Size size_of(const Plan &plan, const Part &part) {
    std::size_t slots = 0, fullest = 0;
    for (const auto &node : part.nodes) {
        slots += node.size();
        fullest = std::max(fullest, node.size());
    }
    const int nodes = static_cast<int>(part.nodes.size()), per_node = static_cast<int>(fullest) * plan.tp;
    const bool whole = plan.launcher == Launcher::torchrun;
    return {.nodes = nodes,
            .tasks = whole ? nodes : static_cast<int>(slots) * plan.tp,
            .tasks_per_node = whole ? 1 : per_node,
            .gpus_per_node = per_node};
}

} // namespace spider::launch
