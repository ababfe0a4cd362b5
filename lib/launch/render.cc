// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/render.h"

#include "launch/trainers.h"
#include "model/json.h"

#include <algorithm>
#include <array>
#include <set>

namespace spider::launch {

namespace {

constexpr std::int64_t most_ranks = 10'000'000; // as the plugin takes
constexpr int most_layers = 1'000'000;
constexpr double most_sequences = 1e9; // of an iteration, as SPEC takes; tokens of a micro-batch

Result<Launch> nothing(const Plan &) { return Launch{}; }

struct Row {
    Trainer trainer;
    Result<Launch> (*render)(const Plan &);
};
constexpr std::array rows{
    Row{Trainer::plain, nothing},         Row{Trainer::megatron, megatron},
    Row{Trainer::torchtitan, torchtitan}, Row{Trainer::deepspeed, deepspeed},
    Row{Trainer::nanotron, nanotron},     Row{Trainer::torchrun, nothing},
};

// A plan may come from a file that somebody wrote: what the functions here take for granted.
Result<void> is_whole(const Plan &plan) {
    const auto broken = [](const std::string &why) { return Error{Errc::invalid, "plan: " + why}; };
    const auto slots = std::int64_t{plan.pp} * plan.dp;
    if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1 || slots * plan.tp > most_ranks)
        return broken("sizes that no job has");
    if (1.0 * plan.micro_batch * plan.micro_batches * plan.dp > most_sequences ||
        1.0 * plan.micro_batch * plan.sequence > most_sequences)
        return broken("a batch that no job has");
    if (plan.stages.size() != static_cast<std::size_t>(plan.pp))
        return broken(std::to_string(plan.stages.size()) + " stages, pp is " + std::to_string(plan.pp));
    for (int next = 0; const auto &stage : plan.stages) {
        if (stage.first_layer != next || stage.last_layer < next || stage.last_layer > most_layers)
            return broken("stages that do not hold layer after layer");
        next = stage.last_layer + 1;
    }
    std::set<Slot> seen;
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes) {
            if (node.empty()) return broken("site " + part.site + ": a node without a slot");
            for (const auto &slot : node)
                if (slot.stage < 0 || slot.stage >= plan.pp || slot.dp < 0 || slot.dp >= plan.dp ||
                    !seen.insert(slot).second)
                    return broken("site " + part.site + ": slot " + std::to_string(slot.stage) + "." +
                                  std::to_string(slot.dp) + " is none of the plan, or there twice");
        }
    if (static_cast<std::int64_t>(seen.size()) != slots)
        return broken(std::to_string(seen.size()) + " slots, pp x dp is " + std::to_string(slots));
    return {};
}

} // namespace

Result<Launch> render(const Plan &plan, Trainer trainer) {
    if (auto whole = is_whole(plan); !whole) return std::move(whole).error();
    for (const auto &row : rows)
        if (row.trainer == trainer) return row.render(plan);
    return Launch{};
}

std::string plan_text(const Plan &plan, std::size_t limit) {
    auto text = model::print_json(model::to_json(plan));
    if (text.size() <= limit) return text;
    auto shorter = plan;
    shorter.passages.clear();
    text = model::print_json(model::to_json(shorter));
    return text.size() <= limit ? text : std::string();
}

void add(Launch &launch, std::string option, std::string value) {
    launch.arguments.push_back(std::move(option));
    launch.arguments.push_back(std::move(value));
}

void add(Launch &launch, std::string option, int value) {
    add(launch, std::move(option), std::to_string(value));
}

void add_sizes(Launch &launch, const Plan &plan) {
    add(launch, "--tensor-model-parallel-size", plan.tp);
    add(launch, "--pipeline-model-parallel-size", plan.pp);
    add(launch, "--micro-batch-size", plan.micro_batch);
    add(launch, "--global-batch-size", batch_of(plan));
    add(launch, "--seq-length", plan.sequence);
}

int layers_in(const Stage &stage) { return stage.last_layer - stage.first_layer + 1; }

int batch_of(const Plan &plan) { return plan.micro_batch * plan.micro_batches * plan.dp; }

bool has_consecutive_ranks(const Plan &plan) {
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (std::size_t i = 1; i < node.size(); ++i)
                if (rank_of(plan, node[i], 0) != rank_of(plan, node[i - 1], 0) + plan.tp) return false;
    return true;
}

bool has_usual_depths(const Plan &plan) {
    for (int i = 0; i < plan.pp; ++i)
        if (plan.stages[static_cast<std::size_t>(i)].depth != std::min(plan.pp - i, plan.micro_batches))
            return false;
    return true;
}

Error depths_not_kept(const Plan &plan, std::string_view trainer) {
    return {Errc::invalid, std::string(trainer) + " keeps P-i micro-batches in flight, the plan has " +
                               std::to_string(plan.stages.front().depth) + " at stage 0 of " +
                               std::to_string(plan.pp) + ": use depth=stages, or trainer=torchtitan"};
}

} // namespace spider::launch
