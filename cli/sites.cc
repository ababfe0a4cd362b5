// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/table.h"
#include "util/clock.h"
#include "util/text.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

std::string free_of(int free, int all) { return std::to_string(free) + "/" + std::to_string(all); }

int run(const std::string &socket, bool json) {
    wire::Client client(socket);
    const auto view = client.sites();
    if (!view) return failure(view.error());
    if (json) return print_json(to_json(*view));
    const util::SystemClock clock;
    Table sites({{"SITE"},
                 {"STATE"},
                 {"NODES", true},
                 {"GPUS", true},
                 {"GPU"},
                 {"API"},
                 {"SEEN", true},
                 {"TROUBLE"}});
    for (const auto &site : view->sites)
        sites.add({site.name + (site.name == view->home ? "*" : ""),
                   site.state + (site.stale ? " (stale)" : ""), free_of(site.free_nodes, site.nodes),
                   free_of(site.free_gpus, site.gpus), or_dash(site.gpu), or_dash(site.api),
                   site.seen_at > 0 ? age(clock.now() - site.seen_at) : "never", or_dash(site.trouble)});
    print(sites.text());
    Table links({{"FROM"}, {"TO"}, {"GBIT/S", true}, {"RTT/MS", true}});
    for (const auto &link : view->links)
        links.add({link.from, link.to, util::number(link.bandwidth_gbps, 4), util::number(link.rtt_ms, 4)});
    if (!links.empty()) print("\n" + links.text());
    return success;
}

} // namespace

void add_sites(CLI::App &app, Context &context) {
    auto json = std::make_shared<bool>(false);
    auto *sites = app.add_subcommand(
        "sites", "List the sites (free/all; * is the home site) and the links between them");
    sites->add_flag("--json", *json, "print JSON");
    sites->callback([&context, json] {
        context.run = [&context, json] { return run(wire::socket_path(context.socket), *json); };
    });
}

} // namespace spider::cli
