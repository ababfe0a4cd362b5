// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/daemon.h"

#include "broker/routes.h"
#include "probe/client.h"
#include "probe/key.h"
#include "util/log.h"
#include "util/notify.h"

#include <chrono>
#include <csignal>
#include <future>
#include <thread>

namespace spider::broker {
namespace {

constexpr Seconds longest_turn = 0.25; // what is due is looked at four times a second
constexpr int longest_answer = 60;     // seconds

sigset_t handled() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR2})
        ::sigaddset(&set, number);
    return set;
}

// The key is read anew, so that a changed one counts at once.
Result<probe::Measurement> ask_agent(const LinkTest &test, int stop) {
    auto key = probe::read_key(test.key_file);
    if (!key) return std::move(key).error();
    return probe::ask(test.agent, *key, test.order, test.deadline, stop);
}

// Without its history the broker measures all links anew.
std::optional<LinkBook> open_book(const std::string &path) {
    auto book = LinkBook::open(path);
    if (book) return std::move(*book);
    util::log_warning(book.error().what + "; what is measured is kept until the broker ends");
    return std::nullopt;
}

} // namespace

void block_signals() {
    const auto set = handled();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

Daemon::Daemon(std::string config_path, Config config, Journal journal, std::optional<LinkBook> book)
    : config_path_(std::move(config_path)),
      broker_(std::move(config), std::move(journal), Links(std::move(book), ask_agent, clock_), http_,
              clock_) {}

Result<std::unique_ptr<Daemon>> Daemon::open(const std::string &config_path) {
    auto config = read_config(config_path);
    if (!config) return std::move(config).error();
    auto journal = Journal::open(config->journal);
    if (!journal) return std::move(journal).error();
    const auto socket = config->socket;
    auto book = open_book(config->link_history);
    std::unique_ptr<Daemon> daemon(
        new Daemon(config_path, std::move(*config), std::move(*journal), std::move(book)));
    auto *self = daemon.get();
    auto server = Server::open(socket, [self](const ApiRequest &request) { return self->answer(request); });
    if (!server) return std::move(server).error();
    daemon->server_ = std::move(*server);
    if (auto resumed = daemon->broker_.resume(); !resumed) return std::move(resumed).error();
    return daemon;
}

void Daemon::post(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        posted_.push_back(std::move(work));
    }
    http_.wake();
}

// In a server's thread: hands the request over and waits for the broker's answer.
ApiReply Daemon::answer(const ApiRequest &request) {
    auto promise = std::make_shared<std::promise<ApiReply>>();
    auto future = promise->get_future();
    post([this, request, promise] {
        route(broker_, request, [promise](ApiReply reply) { promise->set_value(std::move(reply)); });
    });
    for (int waited = 0; waited < longest_answer && !stopping_; ++waited)
        if (future.wait_for(std::chrono::seconds(1)) == std::future_status::ready) return future.get();
    const auto *why = stopping_ ? "the broker is stopping" : "the broker did not answer in time";
    return {stopping_ ? 503 : 504, model::print_json(wire::error_json(why))};
}

void Daemon::watch_signals() {
    const auto set = handled();
    for (;;) {
        int number = 0;
        if (::sigwait(&set, &number) != 0) continue;
        if (number == SIGHUP) post([this] { reload(); });
        if (number == SIGTERM || number == SIGINT) post([this] { stopping_ = true; });
        if (number != SIGHUP) return; // SIGUSR2: the loop has ended
    }
}

void Daemon::reload() {
    const auto microseconds = static_cast<long long>(clock_.elapsed() * 1e6);
    util::notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
    auto config = read_config(config_path_);
    if (!config) {
        util::log_error("reload: " + config.error().what + "; the old settings stay in force");
    } else {
        const auto &old = broker_.config();
        if (config->socket != old.socket || config->journal != old.journal || config->home != old.home)
            util::log_warning("reload: socket, journal and home change only with a restart");
        config->socket = old.socket;
        config->journal = old.journal;
        config->home = old.home;
        broker_.reconfigure(std::move(*config));
        util::log_info("reload: " + config_path_ + " is in force");
    }
    util::notify("READY=1");
}

void Daemon::report() {
    if (auto line = broker_.status_line(); line != told_) {
        util::notify("STATUS=" + line);
        told_ = std::move(line);
    }
    const auto interval = util::watchdog_interval();
    if (interval <= 0 || clock_.elapsed() < watchdog_due_) return;
    util::notify("WATCHDOG=1");
    watchdog_due_ = clock_.elapsed() + interval;
}

void Daemon::run() {
    std::thread signals([this] { watch_signals(); });
    util::notify("READY=1");
    util::log_info("ready: " + broker_.config().socket);
    while (!stopping_) {
        http_.turn(longest_turn);
        std::vector<std::function<void()>> work;
        {
            const std::lock_guard lock(mutex_);
            work.swap(posted_);
        }
        for (const auto &one : work)
            one();
        broker_.tick();
        report();
    }
    util::notify("STOPPING=1");
    util::log_info("stopping; federated jobs go on and are taken up again at the next start");
    ::pthread_kill(signals.native_handle(), SIGUSR2);
    signals.join();
}

} // namespace spider::broker
