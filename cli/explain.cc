// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/explain.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/planning.h"
#include "model/fields.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

// A plan as `spiderflow plan --json` prints it: standard input for "-", or a file with an outcome. Nothing
// when the argument is a SPEC.
Result<std::optional<Plan>> read_plan(const std::string &given) {
    if (given != "-") {
        if (given.empty() || given.find('=') != std::string::npos) return std::optional<Plan>();
        const auto json = model::read_json_file(given, longest_plan);
        if (!json || model::at(*json, "outcome").is_null()) return std::optional<Plan>();
    }
    auto plan = read_plan_file(given);
    if (!plan) return std::move(plan).error();
    return std::optional(std::move(*plan));
}

int explain(const Planned &planned, const std::string &svg) {
    if (const int status = judge(planned.plan); status != success) return status;
    const auto course = plan::course_of(planned.plan);
    if (!course) return failure(course.error());
    print_lines(plan::explanation(planned.plan, *course));
    if (!svg.empty())
        if (const int status =
                write_picture(planned.plan, planned.federation ? &*planned.federation : nullptr, svg);
            status != success)
            return status;
    return plan::agrees(planned.plan, *course)
               ? success
               : failure({Errc::refused, "the plan's own numbers give another time than it says"});
}

int run(const std::string &socket, const PlanRequest &request) {
    auto plan = read_plan(request.spec);
    if (!plan) return plan.error().code == Errc::invalid ? misuse(plan.error().what) : failure(plan.error());
    Planned planned;
    if (*plan) {
        if (!request.federation.empty() || request.tuned || !request.keys.empty())
            return misuse(request.spec + " is a plan already: only --svg may be given with it");
        planned.plan = std::move(**plan);
    } else if (const int status = make(socket, request, planned); status != success) {
        return status;
    }
    return explain(planned, request.svg);
}

} // namespace

void add_explain(CLI::App &app, Context &context) {
    auto request = std::make_shared<PlanRequest>();
    auto *command = app.add_subcommand("explain", "Say how the time of a plan comes about");
    command->add_option("PLAN", request->spec,
                        "the JSON of spiderflow plan, - for standard input; or a SPEC to plan");
    add_plan_options(*command, *request);
    command->callback([&context, request] {
        context.run = [&context, request] { return run(wire::socket_path(context.socket), *request); };
    });
}

} // namespace spider::cli
