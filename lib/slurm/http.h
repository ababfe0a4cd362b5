// SPDX-License-Identifier: GPL-3.0-or-later
// Asynchronous HTTP client over libcurl multi, owned and used by one thread; only wake() may be called from
// any thread. A lane (one site) has at most two requests in flight: slurmrestd has few worker threads; more
// wait in order.
#pragma once

#include "util/clock.h"
#include "util/result.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spider::slurm {

constexpr int requests_per_lane = 2;
constexpr Seconds longest_connect = 2;
constexpr std::size_t largest_body = std::size_t{64} << 20;

struct Request {
    std::string method = "GET";
    std::string url;                                          // http or https; no redirect, no proxy
    std::vector<std::pair<std::string, std::string>> headers; // may hold a token: never printed
    std::string body;
    Seconds timeout = 10;    // from start() to the last byte, waiting in the lane included
    std::string unix_socket; // path; the url's host is then only a name
    std::string lane;        // empty: the url's host and port
};

struct Reply {
    int status = 0;
    std::string body;
    Seconds took = 0; // from start(), waiting in the lane included
};

class Http {
  public:
    // Any HTTP status is a Reply. Errors name host:port and never a header or a body: Errc::unreachable
    // (nobody was asked: it cannot have happened), timeout and protocol (it may have happened), invalid (a
    // senseless request).
    using Done = std::function<void(Result<Reply>)>;

    Http();
    ~Http(); // drops what is under way; no callback runs
    Http(const Http &) = delete;
    Http &operator=(const Http &) = delete;

    // Never blocks and never calls `done` itself: that happens in turn(), exactly once, unless cancel_all()
    // came first. `done` may start further requests; it must not call turn().
    void start(Request request, Done done);

    // Waits up to `longest` for something to happen, then runs the callbacks of finished requests.
    void turn(Seconds longest);

    // Ends the current or the next wait of turn() at once. Any thread.
    void wake();

    // Drops every request, queued or in flight, without calling back.
    void cancel_all();

    [[nodiscard]] std::size_t pending() const; // started and not yet called back

  private:
    class Engine;
    std::unique_ptr<Engine> engine_;
};

} // namespace spider::slurm
