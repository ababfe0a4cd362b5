// SPDX-License-Identifier: GPL-3.0-or-later
// spiderflow-probe(8).
#include "cli/probe_agent.h"
#include "config.h"
#include "probe/agent_config.h"
#include "probe/client.h"
#include "util/log.h"
#include "util/text.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <malloc.h>
#include <string>
#include <unistd.h>

namespace {

using namespace spider;

struct Options {
    std::string config = SF_SYSCONFDIR "/probe.conf";
    bool test = false, verbose = false, json = false;
    std::string new_key;
    std::string key;
    probe::Order order; // of --measure
};

int fail(const Error &error) {
    std::fprintf(stderr, "spiderflow-probe: %s\n", error.what.c_str());
    return 1;
}

int test_config(const Options &options) {
    const auto config = probe::read_agent_config(options.config);
    if (!config) return fail(config.error());
    std::printf("%s: good: site %s on %s; %zu addresses and networks may connect\n", options.config.c_str(),
                config->site.c_str(), config->listen.c_str(), config->networks.size());
    return 0;
}

int make_key(const Options &options) {
    if (auto made = probe::make_key(options.new_key); !made) return fail(made.error());
    std::printf("%s: a new key; each agent and the broker of the federation need a copy, mode 0600\n",
                options.new_key.c_str());
    return 0;
}

std::string line_of(const char *what, const probe::Rate &rate) {
    return std::string(what) + util::number(rate.gbps, 4) + " Gbit/s, one interval in ten below " +
           util::number(rate.low, 4) + "; " + std::to_string(rate.retransmits) + " segments sent again, " +
           rate.congestion + "\n";
}

std::string text_of(const probe::Measurement &found) {
    const auto ms = [](Seconds seconds) { return util::number(seconds * 1e3, 4); };
    return "round trip    " + ms(found.rtt_median) + " ms; least " + ms(found.rtt_min) + ", 95 % within " +
           ms(found.rtt_p95) + "\n" + line_of("forth         ", found.forth) +
           line_of("back          ", found.back) + "both at once  " + util::number(found.forth_both.gbps, 4) +
           " Gbit/s forth, " + util::number(found.back_both.gbps, 4) + " back\n" + "streams       " +
           std::to_string(found.streams) + " each way\n";
}

int measure(const Options &options) {
    constexpr Seconds to_connect = 30;
    const auto key = probe::read_key(options.key);
    if (!key) return fail(key.error());
    const auto found = probe::measure(*key, options.order, probe::longest(options.order) + to_connect);
    if (!found) return fail(found.error());
    const auto text = options.json ? model::print_json(to_json(*found), 2) + "\n" : text_of(*found);
    return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}

int serve(const Options &options) {
    ::mallopt(M_ARENA_MAX, 2); // its threads are many and short, and each would get an arena
    const auto served = cli::serve_probe(options.config);
    return served ? 0 : fail(served.error());
}

void describe(CLI::App &app, Options &options) {
    app.add_option("-c,--config", options.config, "Configuration file")->capture_default_str();
    auto *test = app.add_flag("-t,--test-config", options.test, "Check the configuration file and exit");
    auto *make = app.add_option("--make-key", options.new_key, "Write a new key to a new file and exit")
                     ->option_text("FILE")
                     ->excludes(test);
    auto *measure =
        app.add_option("--measure", options.order.address, "Measure from here to the agent there and exit")
            ->option_text("HOST:PORT")
            ->excludes(test)
            ->excludes(make);
    auto *key = app.add_option("--key", options.key, "The key")->option_text("FILE")->needs(measure);
    measure->needs(key);
    app.add_option("--streams", options.order.streams, "Connections each way")
        ->needs(measure)
        ->check(CLI::Range(1, probe::most_streams))
        ->capture_default_str();
    app.add_option("--seconds", options.order.seconds, "Of each of the three phases")
        ->needs(measure)
        ->check(CLI::Range(0.5, probe::most_seconds))
        ->capture_default_str();
    app.add_option("--pace", options.order.pace_gbps, "Gbit/s of each direction, at most; 0: no limit")
        ->needs(measure)
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    app.add_flag("--json", options.json, "Print JSON")->needs(measure);
    app.add_flag("-v,--verbose", options.verbose, "Log more");
    app.set_version_flag("-V,--version", "spiderflow-probe " PACKAGE_VERSION);
}

int run(const Options &options) {
    if (options.verbose) util::set_log_level(util::Level::debug);
    if (options.test) return test_config(options);
    if (!options.new_key.empty()) return make_key(options);
    return options.order.address.empty() ? serve(options) : measure(options);
}

} // namespace

int main(int argc, char **argv) {
    try {
        Options options;
        CLI::App app("The agent that measures the links between the sites of SpiderFlow.",
                     "spiderflow-probe");
        describe(app, options);
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError &error) {
            return app.exit(error) == 0 ? 0 : 2;
        }
        return run(options);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "spiderflow-probe: %s\n", error.what());
        return 1;
    }
}
