// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/planning.h"
#include "launch/render.h"
#include "plan/summary.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

struct Given {
    PlanRequest request;
    bool json = false;
};

int run(const std::string &socket, const Given &given) {
    Planned planned;
    if (const int status = make(socket, given.request, planned); status != success) return status;
    const auto *federation = planned.federation ? &*planned.federation : nullptr;
    if (given.json) print_json(model::to_json(planned.plan));
    if (const int status = judge(planned.plan); status != success) return status;
    if (!given.json) print_lines(plan::table(planned.plan, federation));
    if (!given.json)
        if (const auto launch = launch::render(planned.plan, planned.plan.trainer))
            for (const auto &note : launch->notes)
                print_line("trainer     " + note);
    if (!given.json && !planned.line.empty()) print_line(printable(planned.line));
    return given.request.svg.empty() ? success : write_picture(planned.plan, federation, given.request.svg);
}

} // namespace

void add_plan(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *plan = app.add_subcommand("plan", "Show how a job would be spread over the sites; starts nothing");
    plan->add_option("SPEC", given->request.spec, "key=value,... or a TOML or JSON file; see spiderflow(7)");
    add_plan_options(*plan, given->request);
    plan->add_flag("--json", given->json, "print JSON");
    plan->callback([&context, given] {
        context.run = [&context, given] { return run(wire::socket_path(context.socket), *given); };
    });
}

} // namespace spider::cli
