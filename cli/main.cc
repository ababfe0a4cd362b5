// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/commands.h"
#include "cli/common.h"
#include "config.h"

#include <cstdio>
#include <exception>

namespace {

#ifdef SLURM_RELEASE
constexpr auto version = "spiderflow " PACKAGE_VERSION " (plugin for Slurm " SLURM_RELEASE ")";
#else
constexpr auto version = "spiderflow " PACKAGE_VERSION " (without the plugin)";
#endif

void describe(CLI::App &app, spider::cli::Context &context) {
    app.name("spiderflow");
    app.set_version_flag("--version", version, "print the version");
    app.set_help_flag("-h,--help", "print this help");
    app.add_option("--socket", context.socket,
                   "the broker's socket (default: $SPIDERFLOW_SOCKET, else " SF_RUNDIR "/spiderflowd.sock)")
        ->option_text("PATH");
    app.require_subcommand(1);
    app.fallthrough();
}

int report(const CLI::App &app, const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) return app.exit(error); // --help, --version
    std::string command = "spiderflow";
    for (const auto *chosen = &app; !chosen->get_subcommands().empty();) {
        chosen = chosen->get_subcommands().front();
        command += " " + chosen->get_name();
    }
    return spider::cli::misuse(std::string(error.what()) + "; see " + command + " --help");
}

int run(int argc, char **argv) {
    CLI::App app("Runs one training job over several Slurm sites; see spiderflow(1).");
    spider::cli::Context context;
    describe(app, context);
    spider::cli::add_plan(app, context);
    spider::cli::add_explain(app, context);
    spider::cli::add_launch(app, context);
    spider::cli::add_profile(app, context);
    spider::cli::add_submit(app, context);
    spider::cli::add_status(app, context);
    spider::cli::add_cancel(app, context);
    spider::cli::add_sites(app, context);
    spider::cli::add_links(app, context);
    spider::cli::add_hook(app, context);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return report(app, error);
    }
    const int status = context.run();
    if (std::fflush(stdout) != 0)
        return spider::cli::failure({spider::Errc::system, "standard output: cannot write"});
    return status;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "spiderflow: %s\n", error.what());
    }
    return spider::cli::failed;
}
