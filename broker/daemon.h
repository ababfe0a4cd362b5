// SPDX-License-Identifier: GPL-3.0-or-later
// The running daemon: one thread turns the broker, the server's threads and the signal thread hand it work.
#pragma once

#include "broker/broker.h"
#include "broker/server.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace spider::broker {

class Daemon {
  public:
    // `config_path` is read again on SIGHUP.
    static Result<std::unique_ptr<Daemon>> open(const std::string &config_path);

    // Until SIGTERM or SIGINT. The signals must be blocked in every thread before (block_signals).
    void run();

  private:
    Daemon(std::string config_path, Config config, Journal journal, std::optional<LinkBook> book);

    void post(std::function<void()> work); // any thread
    ApiReply answer(const ApiRequest &request);
    void watch_signals();
    void reload();
    void report();

    std::string config_path_;
    util::SystemClock clock_;
    slurm::Http http_;
    Broker broker_;
    std::mutex mutex_;
    std::vector<std::function<void()>> posted_; // guarded by mutex_
    std::atomic<bool> stopping_ = false;
    std::string told_; // the last STATUS= line
    Seconds watchdog_due_ = 0;
    std::unique_ptr<Server> server_; // the last member: its threads use the others
};

void block_signals();

} // namespace spider::broker
