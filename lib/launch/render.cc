// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/render.h"

#include "launch/trainers.h"
#include "model/json.h"

#include <algorithm>
#include <array>

namespace spider::launch {

namespace {

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

} // namespace

Result<Launch> render(const Plan &plan, Trainer trainer) {
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
