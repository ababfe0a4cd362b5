// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin's helper: runs inside sbatch as the user, speaks by lines on standard input and output.
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/hook_check.h"
#include "cli/hook_lines.h"
#include "cli/placing.h"
#include "plan/summary.h"
#include "util/text.h"

#include <csignal>
#include <memory>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr std::size_t longest_input = 16u << 20;

int fail_line(const Error &error) {
    print(line("fail", printable(error.what)));
    return failed;
}

bool switched_off(const PlanLines &asked) {
    return asked.spec == "off" || (asked.spec.empty() && environment_value("SLURM_SPIDERFLOW") == "off");
}

int plan_hook(const std::string &socket) {
    const auto text = read_all(STDIN_FILENO, longest_input);
    const auto asked = text ? read_plan_lines(*text) : Result<PlanLines>(text.error());
    if (!asked) return fail_line(asked.error());
    if (switched_off(*asked)) return success;
    const auto planned = ask_plan(socket, {asked->spec, spec_defaults()}, asked->options, asked->test_only);
    if (!planned) return fail_line(planned.error());
    print(plan_lines(planned->reply) + kept_lines(planned->travelling));
    if (asked->test_only)
        for (const auto &row : util::split(util::trim(plan::table(planned->reply.plan)), '\n'))
            print(line("say", row));
    return success;
}

int place_hook(const std::string &socket, const std::string &job, pid_t submitter) {
    if (submitter > 0) // Ctrl-C ends sbatch; what it has submitted is still to be placed or dropped
        for (const int signal : {SIGINT, SIGHUP, SIGQUIT})
            ::signal(signal, SIG_IGN);
    const auto text = read_all(STDIN_FILENO, longest_input);
    const auto asked = text ? read_place_lines(*text) : Result<PlaceLines>(text.error());
    if (!asked) return fail_line(asked.error());
    const auto said =
        place(socket, {job, asked->arguments, asked->export_value,
                       submitter > 0 ? std::optional(submitter) : std::nullopt, asked->travelling});
    if (!said) return fail_line(said.error());
    print(line("say", *said));
    return success;
}

int drop_hook(const std::string &socket, const std::string &job) {
    wire::Client client(socket);
    const auto dropped = client.drop(job);
    if (!dropped && dropped.error().code != Errc::not_found) return fail_line(dropped.error());
    return success;
}

struct Given {
    std::string job;
    pid_t submitter = 0;
};

} // namespace

void add_hook(CLI::App &app, Context &context) {
    auto *hook = app.add_subcommand("hook", "What the plugin calls inside sbatch; not for people");
    hook->group("");
    hook->require_subcommand(1);
    auto given = std::make_shared<Given>();
    hook->add_subcommand("plan", "Ask for a plan, before the submission")->callback([&context] {
        context.run = [&context] { return plan_hook(wire::socket_path(context.socket)); };
    });
    auto *placing = hook->add_subcommand("place", "Have the other parts placed, after the submission");
    placing->add_option("job", given->job, "Federated job")->required();
    placing->add_option("--while", given->submitter, "Look for the home part while this process lives");
    placing->callback([&context, given] {
        context.run = [&context, given] {
            return place_hook(wire::socket_path(context.socket), given->job, given->submitter);
        };
    });
    hook->add_subcommand("check", "Look at the links, in a batch step")->callback([&context] {
        context.run = [] { return check_hook(); };
    });
    auto *drop = hook->add_subcommand("drop", "The plan is not needed");
    drop->add_option("job", given->job, "Federated job")->required();
    drop->callback([&context, given] {
        context.run = [&context, given] { return drop_hook(wire::socket_path(context.socket), given->job); };
    });
}

} // namespace spider::cli
