// SPDX-License-Identifier: GPL-3.0-or-later
// Prints random plans and what each trainer is told of them, one JSON line each, for `make oracle`.
//   cases [NUMBER]
#include "../unit/random_plans.h"

#include "launch/render.h"
#include "model/json.h"

#include <cstdio>
#include <cstdlib>

namespace spider {
namespace {

Json launch_json(const launch::Launch &launch) {
    Json files = Json::object();
    for (const auto &file : launch.files)
        files[file.name] = file.text;
    return {{"args", launch.arguments}, {"files", files}, {"notes", launch.notes}};
}

Json ranks_json(const Plan &plan) {
    Json ranks = Json::array();
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                for (int tp = 0; tp < plan.tp; ++tp)
                    ranks.push_back({rank_of(plan, slot, tp), slot.stage, slot.dp, tp});
    return ranks;
}

Json case_json(const Plan &plan) {
    Json launch = Json::object();
    for (const auto trainer : {Trainer::megatron, Trainer::torchtitan, Trainer::deepspeed, Trainer::nanotron})
        if (const auto told = launch::render(plan, trainer)) // else render() refuses the plan for it
            launch[std::string(model::name(trainer))] = launch_json(*told);
    return {{"plan", model::to_json(plan)}, {"launch", launch}, {"ranks", ranks_json(plan)}};
}

} // namespace
} // namespace spider

int main(int argc, char **argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
    spider::RandomPlans plans(7);
    for (int n = 0; n < count; ++n) {
        const auto depths = n % 2 == 0 ? spider::Depths::usual : spider::Depths::deeper;
        std::puts(spider::model::print_json(spider::case_json(plans.plan(depths, n % 3 == 0))).c_str());
    }
}
