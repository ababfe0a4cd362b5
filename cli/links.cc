// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/link_import.h"
#include "cli/link_tables.h"
#include "cli/planning.h"
#include "util/clock.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

struct Given {
    std::string federation; // path; empty = the broker
    bool json = false, matrix = false;
    wire::MeasureRequest measure;
    ImportRequest imported;
};

int refuse(const Error &error) { return error.code == Errc::invalid ? misuse(error.what) : failure(error); }

int show(const wire::LinksView &view, const Given &given) {
    if (given.json) return print_json(to_json(view));
    print(given.matrix ? link_matrix(view) : link_list(view));
    return success;
}

int list(const std::string &socket, const Given &given) {
    if (!given.federation.empty()) {
        const auto federation = read_federation_file(given.federation);
        if (!federation) return refuse(federation.error());
        return show(links_of(*federation, util::SystemClock().now()), given);
    }
    const auto view = wire::Client(socket).links();
    return view ? show(*view, given) : failure(view.error());
}

int measure(const std::string &socket, const Given &given) {
    const auto view = wire::Client(socket).measure(given.measure);
    return view ? show(*view, given) : failure(view.error());
}

int take(const std::string &socket, const Given &given) {
    const auto samples = read_samples(given.imported);
    if (!samples) return refuse(samples.error());
    if (given.imported.dry_run) {
        print(sample_list(*samples));
        return success;
    }
    const auto reply = wire::Client(socket).import_links({*samples});
    if (!reply) return failure(reply.error());
    print_line(std::to_string(reply->taken) + (reply->taken == 1 ? " measurement" : " measurements") +
               " taken");
    return success;
}

void add_measure(CLI::App &links, Context &context, const std::shared_ptr<Given> &given) {
    auto *measure = links.add_subcommand("measure", "Measure the link between two sites now, both ways");
    measure->add_option("FROM", given->measure.from, "a site")->required();
    measure->add_option("TO", given->measure.to, "another")->required();
    measure->add_flag("--json", given->json, "print JSON");
    measure->callback([&context, given] {
        context.run = [&context, given] { return cli::measure(wire::socket_path(context.socket), *given); };
    });
}

void add_import(CLI::App &links, Context &context, const std::shared_ptr<Given> &given) {
    auto &request = given->imported;
    auto *command =
        links.add_subcommand("import", "Take measurements of iperf3, perfSONAR, or a list or matrix");
    command->add_option("FILE", request.files, "results; \"-\" is standard input")->required();
    command->add_option("--format", request.format,
                        "iperf3, pscheduler, csv, toml or federation (default: by what is in it)");
    command->add_option("--from", request.from, "the site that a file's sender is at");
    command->add_option("--to", request.to, "the site that its receiver is at");
    command
        ->add_option("--site", request.sites,
                     "HOST=SITE: the site of a host that a file names; may be repeated")
        ->allow_extra_args(false);
    command->add_option("--at", request.at,
                        "when it was measured, for files that do not say: YYYY-MM-DDTHH:MM:SSZ");
    command->add_flag("--dry-run", request.dry_run, "show what would be taken");
    command->callback([&context, given] {
        context.run = [&context, given] { return take(wire::socket_path(context.socket), *given); };
    } // namespace
    );
} // namespace spider::cli

} // namespace

void add_links(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *links =
        app.add_subcommand("links", "Show what is known of the links between sites, the worst first");
    links->add_flag("--matrix", given->matrix, "print matrices: Gbit/s, and ms");
    links->add_flag("--json", given->json, "print JSON");
    links->add_option("--federation", given->federation, "the links of this file; without it: the broker's");
    links->require_subcommand(0, 1);
    add_measure(*links, context, given);
    add_import(*links, context, given);
    links->callback([&context, given, links] {
        if (!links->get_subcommands().empty()) return; // it has said what to run
        context.run = [&context, given] { return list(wire::socket_path(context.socket), *given); };
    });
}

} // namespace spider::cli
