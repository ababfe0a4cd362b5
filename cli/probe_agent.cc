// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/probe_agent.h"

#include "probe/agent.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/notify.h"

#include <csignal>
#include <ctime>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace spider::cli {
namespace {

sigset_t handled() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP})
        ::sigaddset(&set, number);
    return set;
}

void reload(probe::Agent &agent, const std::string &config_path) {
    const auto microseconds = static_cast<long long>(util::SystemClock().elapsed() * 1e6);
    util::notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
    if (auto config = probe::read_agent_config(config_path); !config) {
        util::log_error("reload: " + config.error().what + "; the old settings stay in force");
    } else {
        agent.reload(std::move(*config));
        util::log_info("reload: " + config_path + " is in force");
    }
    util::notify("READY=1");
}

// Until the program is to stop.
void watch_signals(probe::Agent &agent, const std::string &config_path) {
    const auto set = handled();
    constexpr timespec status_interval{60, 0};
    for (;;) {
        util::notify("STATUS=" + agent.status());
        const int number = ::sigtimedwait(&set, nullptr, &status_interval);
        if (number == SIGHUP) reload(agent, config_path);
        if (number == SIGTERM || number == SIGINT) return;
    }
}

} // namespace

Result<void> serve_probe(const std::string &config_path) {
    const auto set = handled();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    auto config = probe::read_agent_config(config_path);
    if (!config) return std::move(config).error();
    const auto line = "site " + config->site + ", " + config->listen;
    auto agent = probe::Agent::open(std::move(*config));
    if (!agent) return std::move(agent).error();
    const util::Fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::thread runner([&] { agent->run(stop.get()); });
    util::notify("READY=1");
    util::log_info("ready: " + line);
    watch_signals(*agent, config_path);
    util::notify("STOPPING=1");
    util::log_info("stopping");
    ::eventfd_write(stop.get(), 1);
    runner.join();
    return {};
}

} // namespace spider::cli
