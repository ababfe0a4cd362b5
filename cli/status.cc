// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/table.h"
#include "util/clock.h"
#include "util/text.h"
#include "wire/client.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace spider::cli {
namespace {

struct Given {
    std::string job;
    bool all = false;
    bool json = false;
};

// Before the parts exist the plan says where they will be.
std::string sites_of(const wire::JobView &job) {
    std::vector<std::string> names;
    for (const auto &part : job.parts)
        names.push_back(part.site);
    if (names.empty() && job.plan)
        for (const auto &part : job.plan->parts)
            names.push_back(part.site);
    return or_dash(util::join(names, ","));
}

std::string sum(const wire::JobView &job, int wire::PartView::*field) {
    int total = 0;
    for (const auto &part : job.parts)
        total += part.*field;
    return job.parts.empty() ? "-" : std::to_string(total);
}

int list(wire::Client &client, const Given &given) {
    const auto reply = client.jobs(given.all);
    if (!reply) return failure(reply.error());
    if (given.json) return print_json(to_json(*reply));
    const util::SystemClock clock;
    Table table({{"ID"},
                 {"USER"},
                 {"NAME"},
                 {"STATE"},
                 {"SITES"},
                 {"NODES", true},
                 {"GPUS", true},
                 {"AGE", true},
                 {"REASON"}});
    for (const auto &job : reply->jobs)
        table.add({job.id, job.user, job.name, job.state, sites_of(job), sum(job, &wire::PartView::nodes),
                   sum(job, &wire::PartView::gpus), age(clock.now() - job.submitted), or_dash(job.reason)});
    print(table.text());
    return success;
}

void print_field(const std::string &name, const std::string &value) {
    if (!value.empty()) print_line(name + std::string(11 - name.size(), ' ') + printable(value));
}

std::string attempt(const wire::JobView &job) {
    auto text = std::to_string(job.attempt);
    if (job.on_failure.empty()) return text; // an older broker
    if (job.on_failure != "cancel") text += " of " + std::to_string(job.attempts);
    return text + " (on_failure " + job.on_failure + ")";
}

// "" when there is nothing to complain about.
std::string idle(const wire::JobView &job) {
    const auto seconds = std::round(job.idle_gpu_seconds);
    if (seconds <= 0 && job.turns <= 0) return {};
    const auto text = util::number(seconds, 15) + " GPU-seconds at the rendezvous";
    if (job.turns <= 0) return text;
    return text + ", given back " + (job.turns == 1 ? "once" : std::to_string(job.turns) + " times");
}

std::string table_of(const std::vector<wire::PartView> &parts) {
    const bool expected =
        std::any_of(parts.begin(), parts.end(), [](const auto &part) { return part.expected_start > 0; });
    std::vector<Column> columns{{"SITE"},        {"JOB", true},  {"STATE"},
                                {"NODES", true}, {"GPUS", true}, {"STAGES"}};
    if (expected) columns.push_back({"EXPECTED"});
    Table table(std::move(columns));
    for (const auto &part : parts) {
        std::vector<std::string> cells{part.site,
                                       part.job > 0 ? std::to_string(part.job) : "-",
                                       or_dash(part.state),
                                       std::to_string(part.nodes),
                                       std::to_string(part.gpus),
                                       or_dash(part.stages)};
        if (expected) cells.push_back(util::local_time(part.expected_start));
        table.add(std::move(cells));
    }
    return table.text();
}

void print_job(const wire::JobView &job) {
    print_field("Job", job.id + "  " + job.name);
    print_field("User", job.user);
    print_field("State", job.state + (job.reason.empty() ? "" : ": " + job.reason));
    print_field("Attempt", attempt(job));
    print_field("Idle", idle(job));
    print_field("Submitted", util::local_time(job.submitted));
    print_field("Plan", job.line);
    Table files({{"SITE"}, {"OUTPUT"}, {"ERROR"}});
    for (const auto &part : job.parts)
        files.add(
            {part.site, or_dash(part.output), part.error == part.output ? "the same" : or_dash(part.error)});
    if (!job.parts.empty()) print("\n" + table_of(job.parts) + "\n" + files.text());
    Table history({{"TIME"}, {"STATE"}, {"WHY"}});
    for (const auto &step : job.history)
        history.add({util::local_time(step.at), step.state, step.why});
    if (!history.empty()) print("\n" + history.text());
}

int run(const std::string &socket, const Given &given) {
    wire::Client client(socket);
    if (given.job.empty()) return list(client, given);
    const auto job = client.job(given.job);
    if (!job) return failure(job.error());
    if (given.json) return print_json(to_json(*job));
    print_job(*job);
    return success;
}

} // namespace

void add_status(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *status = app.add_subcommand("status", "List your federated jobs, or show one");
    status->add_option("ID", given->job, "a job, for example s1-17; without it: the list");
    status->add_flag("--all", given->all, "list those that have ended, too");
    status->add_flag("--json", given->json, "print JSON");
    status->callback([&context, given] {
        context.run = [&context, given] { return run(wire::socket_path(context.socket), *given); };
    });
}

} // namespace spider::cli
