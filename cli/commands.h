// SPDX-License-Identifier: GPL-3.0-or-later
// The sub-commands: each adds its options to the command line and, when chosen, leaves what to run in the
// Context.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace spider::cli {

struct Context {
    std::string socket;       // --socket, may be empty
    std::function<int()> run; // the chosen sub-command; gives the exit status
};

void add_plan(CLI::App &app, Context &context);
void add_explain(CLI::App &app, Context &context);
void add_launch(CLI::App &app, Context &context);
void add_profile(CLI::App &app, Context &context);
void add_submit(CLI::App &app, Context &context);
void add_status(CLI::App &app, Context &context);
void add_cancel(CLI::App &app, Context &context);
void add_sites(CLI::App &app, Context &context);
void add_links(CLI::App &app, Context &context);
void add_hook(CLI::App &app, Context &context); // for the plugin; not in the list of sub-commands

} // namespace spider::cli
