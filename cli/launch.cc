// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/planning.h"
#include "launch/environment.h"
#include "launch/render.h"
#include "util/text.h"

#include <algorithm>
#include <memory>

namespace spider::cli {
namespace {

struct Given {
    std::string plan, site, trainer;
    bool json = false;
};

// The part of the site that is asked for; without one the first, which is the home site's.
Result<const Part *> part_of(const Plan &plan, const std::string &site) {
    std::vector<std::string> names;
    for (const auto &part : plan.parts) {
        if (site.empty() || part.site == site) return &part;
        names.push_back(part.site);
    }
    return Error{Errc::invalid,
                 "--site: the plan has no part at '" + site + "'; sites: " + util::join(names, ", ")};
}

// What the job's environment brings, but for what is shown by itself.
launch::Environment environment_of(const Plan &plan, const Part &part) {
    auto environment = launch::carriers(plan, part, part.site + "-1", 1);
    std::erase_if(environment, [](const auto &variable) {
        return variable.first.starts_with("SLURM_SPIDERFLOW_ARGS") ||
               variable.first.starts_with("SLURM_SPIDERFLOW_FILE_");
    });
    return environment;
}

Json json_of(const launch::Environment &environment, const launch::Launch &launch) {
    Json variables = Json::object(), files = Json::object();
    for (const auto &[name, value] : environment)
        variables[name] = value;
    for (const auto &file : launch.files)
        files[file.name] = file.text;
    return {{"env", variables}, {"args", launch.arguments}, {"files", files}, {"notes", launch.notes}};
}

void print_text(const launch::Environment &environment, const launch::Launch &launch) {
    for (const auto &[name, value] : environment)
        print_line(name + "=" + value);
    print_line("SPIDERFLOW_TRAINER_ARGS=" + util::join(launch.arguments, " "));
    for (const auto &file : launch.files)
        print_line("@" + file.name + "@: " + std::to_string(file.text.size()) + " bytes; --json shows them");
    for (const auto &note : launch.notes)
        print_line("note: " + note);
}

int run(const Given &given) {
    auto plan = read_plan_file(given.plan);
    if (!plan) return plan.error().code == Errc::invalid ? misuse(plan.error().what) : failure(plan.error());
    if (const int status = judge(*plan); status != success) return status;
    if (!given.trainer.empty()) {
        const auto trainer = model::trainer_named(given.trainer);
        if (!trainer)
            return misuse("--trainer=" + given.trainer +
                          ": expected plain, megatron, torchtitan, deepspeed, nanotron or torchrun");
        plan->trainer = *trainer;
        if (*trainer == Trainer::torchrun) plan->launcher = Launcher::torchrun;
    }
    if (const auto can = launch::can_launch(*plan); !can) return failure(can.error());
    const auto part = part_of(*plan, given.site);
    if (!part) return misuse(part.error().what);
    const auto launch = launch::render(*plan, plan->trainer);
    const auto environment = environment_of(*plan, **part);
    if (given.json) return print_json(json_of(environment, *launch));
    print_text(environment, *launch);
    return success;
}

} // namespace

void add_launch(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *command = app.add_subcommand("launch", "Show what a part of a plan and its trainer are told");
    command->add_option("--plan", given->plan, "the JSON of spiderflow plan, - for standard input")
        ->option_text("FILE")
        ->required();
    command->add_option("--site", given->site, "whose part (default: the first)")->option_text("SITE");
    command->add_option("--trainer", given->trainer, "in the words of this trainer (default: the plan's)")
        ->option_text("NAME");
    command->add_flag("--json", given->json, "print JSON");
    command->callback([&context, given] { context.run = [given] { return run(*given); }; });
}

} // namespace spider::cli
