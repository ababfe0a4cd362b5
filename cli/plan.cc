// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/spec_options.h"
#include "model/spec.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "util/fd.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

struct Given {
    std::string spec;
    SpecKeys keys;
    std::string federation;
    std::string planner;
    std::string home;
    double budget_ms = 200;
    std::uint64_t seed = 1;
    bool json = false;
    bool tuned = false; // --planner, --budget-ms, --seed or --home was given
};

Result<JobSpec> read_job(const Given &given) {
    const auto text = compose(given.spec, given.keys, spec_defaults());
    if (!text) return text.error();
    return model::read_spec(text->text, text->defaults, working_directory());
}

Result<Federation> read_federation_file(const std::string &path) {
    const auto text = util::read_file(path);
    if (!text) return text.error();
    const auto json = model::parse_json(*text);
    if (!json) return json.error().within(path);
    auto federation = federation::read_federation(*json);
    if (!federation) return std::move(federation).error().within(path);
    return federation;
}

int show(const Plan &plan, bool json) {
    if (json) print_json(model::to_json(plan));
    if (plan.outcome == Outcome::infeasible) return failure({Errc::refused, "no plan: " + plan.reason});
    if (!json) print(plan::table(plan));
    return success;
}

int plan_offline(const Given &given, JobSpec spec) {
    spec.home = given.home;
    const auto federation = read_federation_file(given.federation);
    if (!federation) return failure(federation.error());
    const auto made = plan::make_plan(*federation, spec, {given.budget_ms / 1000, given.seed}, given.planner);
    if (!made) return failure(made.error());
    if (made->outcome == Outcome::planned)
        if (const auto sound = plan::check(*federation, spec, *made); !sound)
            return failure(
                sound.error().within("planner " + made->search.planner + " made a plan that cannot start"));
    return show(*made, given.json);
}

int plan_with_broker(const std::string &socket, const Given &given, const JobSpec &spec) {
    wire::Client client(socket);
    const auto reply = client.plan({spec, {}, working_directory(), true});
    if (!reply) return failure(reply.error());
    if (!reply->id.empty())
        if (const auto dropped = client.drop(reply->id); !dropped && dropped.error().code != Errc::not_found)
            failure(dropped.error());
    const int status = show(reply->plan, given.json);
    if (status == success && !given.json && !reply->line.empty()) print_line(printable(reply->line));
    return status;
}

bool is_planner(const std::string &name) {
    for (const auto &known : plan::planners())
        if (known.name == name) return true;
    return name.empty();
}

std::string planner_names() {
    std::string names;
    for (const auto &known : plan::planners())
        names += (names.empty() ? "" : ", ") + std::string(known.name);
    return names;
}

int run(const std::string &socket, const Given &given) {
    if (!is_planner(given.planner))
        return misuse("--planner: no planner '" + given.planner + "'; there are: " + planner_names());
    if (given.federation.empty() && given.tuned)
        return misuse(
            "--planner, --budget-ms, --seed and --home need --federation FILE; the broker uses its own");
    const auto spec = read_job(given);
    if (!spec) return spec.error().code == Errc::invalid ? misuse(spec.error().what) : failure(spec.error());
    return given.federation.empty() ? plan_with_broker(socket, given, *spec) : plan_offline(given, *spec);
}

} // namespace

void add_plan(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *plan = app.add_subcommand("plan", "Show how a job would be spread over the sites; starts nothing");
    plan->add_option("SPEC", given->spec, "key=value,... or a TOML or JSON file; see spiderflow(7)");
    plan->add_option("--federation", given->federation, "plan offline for the sites of this JSON file")
        ->option_text("FILE");
    auto *planner = plan->add_option("--planner", given->planner, planner_names())->option_text("NAME");
    auto *budget = plan->add_option("--budget-ms", given->budget_ms, "time for the search")
                       ->option_text("N")
                       ->check(CLI::PositiveNumber);
    auto *seed = plan->add_option("--seed", given->seed, "same seed, same plan")->option_text("N");
    auto *home = plan->add_option("--home", given->home, "the site that must take part")->option_text("SITE");
    plan->add_flag("--json", given->json, "print JSON");
    add_spec_options(*plan, given->keys);
    plan->callback([&context, given, planner, budget, seed, home] {
        for (const auto *option : {planner, budget, seed, home})
            if (option->count() > 0) given->tuned = true;
        context.run = [&context, given] { return run(wire::socket_path(context.socket), *given); };
    });
}

} // namespace spider::cli
