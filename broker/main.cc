// SPDX-License-Identifier: GPL-3.0-or-later
// spiderflowd(8).
#include "broker/daemon.h"
#include "broker/recover.h"
#include "config.h"
#include "util/log.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <malloc.h>
#include <string>

namespace {

struct Options {
    std::string config = SF_SYSCONFDIR "/spiderflow.conf";
    bool test = false;
    bool recover = false;
    bool verbose = false;
};

int fail(const spider::Error &error) {
    std::fprintf(stderr, "spiderflowd: %s\n", error.what.c_str());
    return 1;
}

int test_config(const Options &options) {
    const auto config = spider::broker::read_config(options.config);
    if (!config) return fail(config.error());
    std::printf("%s: good: %zu sites, %zu links, home %s\n", options.config.c_str(), config->sites.size(),
                config->links.size(), config->home.c_str());
    return 0;
}

int recover(const Options &options) {
    constexpr spider::Seconds longest = 60; // of a site with very many jobs
    const auto config = spider::broker::read_config(options.config);
    if (!config) return fail(config.error());
    const auto lines = spider::broker::recover(*config, longest);
    if (!lines) return fail(lines.error());
    for (const auto &line : *lines)
        std::printf("%s\n", line.c_str());
    return 0;
}

int serve(const Options &options) {
    ::mallopt(M_ARENA_MAX, 2); // the server's threads are many and short, and each would get an arena
    spider::broker::block_signals();
    auto daemon = spider::broker::Daemon::open(options.config);
    if (!daemon) return fail(daemon.error());
    (*daemon)->run();
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        Options options;
        CLI::App app(
            "The broker of SpiderFlow: plans, places and starts training jobs over several Slurm clusters.",
            "spiderflowd");
        app.add_option("-c,--config", options.config, "Configuration file")->capture_default_str();
        app.add_flag("-t,--test-config", options.test, "Check the configuration file and exit");
        app.add_flag("--recover", options.recover, "Rebuild a lost journal from the sites and exit")
            ->excludes("--test-config");
        app.add_flag("-v,--verbose", options.verbose, "Log more");
        app.set_version_flag("-V,--version", "spiderflowd " PACKAGE_VERSION);
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError &error) {
            return app.exit(error) == 0 ? 0 : 2;
        }
        if (options.verbose) spider::util::set_log_level(spider::util::Level::debug);
        if (options.test) return test_config(options);
        return options.recover ? recover(options) : serve(options);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "spiderflowd: %s\n", error.what());
        return 1;
    }
}
