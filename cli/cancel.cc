// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "wire/client.h"

#include <memory>

namespace spider::cli {
namespace {

// All are tried; one that fails makes the exit status 1.
int run(const std::string &socket, const std::vector<std::string> &jobs) {
    wire::Client client(socket);
    int status = success;
    for (const auto &job : jobs)
        if (const auto cancelled = client.cancel(job); !cancelled) status = failure(cancelled.error());
    return status;
}

} // namespace

void add_cancel(CLI::App &app, Context &context) {
    auto jobs = std::make_shared<std::vector<std::string>>();
    auto *cancel = app.add_subcommand("cancel", "Cancel federated jobs at all their sites");
    cancel->add_option("ID", *jobs, "jobs, for example s1-17")->required();
    cancel->callback([&context, jobs] {
        context.run = [&context, jobs] { return run(wire::socket_path(context.socket), *jobs); };
    });
}

} // namespace spider::cli
