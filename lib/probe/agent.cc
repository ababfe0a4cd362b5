// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/agent.h"

#include "probe/channel.h"
#include "probe/client.h"
#include "probe/guard.h"
#include "probe/messages.h"
#include "probe/target.h"
#include "util/log.h"
#include "util/text.h"

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <thread>

namespace spider::probe {
namespace {

constexpr Seconds refusal_within = 1; // to send it
constexpr Bytes least_bytes = 1e6;    // of a test that says anything
constexpr Seconds forever = 1e9;

Seconds now() { return util::SystemClock().now(); }

std::string megabytes(Bytes bytes) { return util::number(bytes / 1e6, 4) + " MB"; }

} // namespace

struct Agent::State {
    explicit State(AgentConfig settings) : config(std::make_shared<AgentConfig>(std::move(settings))) {}

    std::shared_ptr<const AgentConfig> settings() const {
        const std::lock_guard lock(mutex);
        return config;
    }
    void accept_one(int stop);
    void serve(util::Fd fd, const Address &peer, int stop);
    Result<void> converse(util::Fd fd, const std::string &from, bool &proven, int stop);
    Result<void> be_target(Channel &control, const Json &request, const std::string &from, int stop);
    Result<void> be_stream(Channel stream, const Json &request, int stop);
    Result<void> be_measurer(Channel &asker, const Json &request, const std::string &from, int stop);
    Result<Measurement> measure_for(const AgentConfig &current, const Json &request, int stop);
    Result<Limits> limits(const AgentConfig &current) const;
    void carried(Bytes bytes, const std::string &what, const Result<void> &outcome);

    util::Fd listener;
    DailyBytes daily;
    QuietLog quiet;
    Places places;
    std::mutex turn; // held by whoever measures or is measured: one test at a time

    mutable std::mutex mutex; // of all below
    std::shared_ptr<const AgentConfig> config;
    std::shared_ptr<Target> target;
    std::condition_variable left;
    int threads = 0;
    int tests = 0; // that others have made towards this agent, to their good end
};

Agent::Agent(std::unique_ptr<State> state) : state_(std::move(state)) {}
Agent::Agent(Agent &&) noexcept = default;
Agent &Agent::operator=(Agent &&) noexcept = default;
Agent::~Agent() = default;

Result<Agent> Agent::open(AgentConfig config) {
    auto listener = listen_on(config.listen);
    if (!listener) return std::move(listener).error().within("listen");
    auto state = std::make_unique<State>(std::move(config));
    state->listener = std::move(*listener);
    return Agent(std::move(state));
}

int Agent::measured() const {
    const std::lock_guard lock(state_->mutex);
    return state_->tests;
}

int Agent::port() const { return address_of(state_->listener.get()).port(); }

std::string Agent::status() const {
    return "site " + state_->settings()->site + ", " + megabytes(state_->daily.spent(now())) + " today";
}

void Agent::reload(AgentConfig config) {
    const std::lock_guard lock(state_->mutex);
    if (config.listen != state_->config->listen)
        util::log_warning("reload: listen changes only with a restart");
    config.listen = state_->config->listen;
    state_->config = std::make_shared<AgentConfig>(std::move(config));
}

void Agent::run(int stop) {
    const Deadline deadline(forever, stop);
    while (deadline.wait(state_->listener.get(), POLLIN))
        state_->accept_one(stop);
    std::unique_lock lock(state_->mutex);
    state_->left.wait(lock, [this] { return state_->threads == 0; });
}

// An address that is not on the list is sent away before a byte of it is read.
void Agent::State::accept_one(int stop) {
    util::Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
            quiet.warn("accept", "agent", std::string("accept: ") + std::strerror(errno), now());
            (void)Deadline(forever, stop).pause(0.1); // out of descriptors: some come back
        }
        return;
    }
    const auto peer = peer_of(fd.get());
    if (peer.size == 0) return;
    if (!settings()->admits(peer)) {
        quiet.warn("allow", peer.text(), "not on the list 'allow': closed", now());
        return;
    }
    if (!places.enter(peer.text())) {
        quiet.warn("places", peer.text(), "too many connections: closed", now());
        return;
    }
    {
        const std::lock_guard lock(mutex);
        ++threads;
    }
    try {
        std::thread([this, fd = std::move(fd), peer, stop]() mutable {
            serve(std::move(fd), peer, stop);
        }).detach();
    } catch (const std::exception &error) { // no thread: this connection is closed, the agent goes on
        quiet.warn("thread", "agent", error.what(), now());
        places.leave(peer.text(), false);
        const std::lock_guard lock(mutex);
        --threads;
    }
}

// The thread of a connection; nothing it throws ends the agent.
void Agent::State::serve(util::Fd fd, const Address &peer, int stop) {
    const auto from = peer.text();
    bool proven = false;
    try {
        const int yes = 1;
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (auto served = converse(std::move(fd), from, proven, stop); !served)
            quiet.warn(proven ? "peer" : "stranger", from, served.error().what, now());
    } catch (const std::exception &error) {
        quiet.warn("exception", from, error.what(), now());
    }
    places.leave(from, proven);
    const std::lock_guard lock(mutex);
    --threads;
    left.notify_all();
}

Result<void> Agent::State::converse(util::Fd fd, const std::string &from, bool &proven, int stop) {
    const auto current = settings();
    const Deadline soon(proof_within, stop);
    auto channel = Channel::welcome(std::move(fd), current->key, current->site, soon);
    if (!channel) return std::move(channel).error();
    const auto request = channel->receive(soon);
    if (!request) return request.error();
    proven = true;
    places.prove(from);
    const auto what = model::text_at(*request, "do");
    if (what == "attach") return be_stream(std::move(*channel), *request, stop);
    auto served = what == "test"      ? be_target(*channel, *request, from, stop)
                  : what == "measure" ? be_measurer(*channel, *request, from, stop)
                                      : Error{Errc::protocol, "it asks for something unknown"};
    if (!served) (void)channel->send(refusal(served.error()), Deadline(refusal_within, stop));
    return served;
}

// What one more test may carry.
Result<Limits> Agent::State::limits(const AgentConfig &current) const {
    const auto today = current.daily_gbytes * 1e9 - daily.spent(now());
    if (today < least_bytes)
        return Error{Errc::refused, "site " + current.site + " has spent its " +
                                        util::number(current.daily_gbytes) + " GB of today"};
    return Limits{static_cast<int>(current.streams), current.most_gbps,
                  std::min(current.most_gbytes * 1e9, today)};
}

void Agent::State::carried(Bytes bytes, const std::string &what, const Result<void> &outcome) {
    daily.count(bytes, now());
    util::log_info(what + ": " + megabytes(bytes) + (outcome ? "" : ": " + outcome.error().what));
}

Result<void> Agent::State::be_target(Channel &control, const Json &request, const std::string &from,
                                     int stop) {
    const auto current = settings();
    auto order = order_from_json(model::at(request, "order"));
    if (!order) return std::move(order).error();
    const std::unique_lock mine(turn, std::try_to_lock);
    if (!mine) return busy_with_another(current->site);
    const auto most = limits(*current);
    if (!most) return most.error();
    const auto granted = limited(*order, *most);
    const auto test = std::make_shared<Target>(granted);
    {
        const std::lock_guard lock(mutex);
        target = test;
    }
    auto served = test->serve(control, Deadline(longest(granted), stop));
    {
        const std::lock_guard lock(mutex);
        target.reset();
        tests += served ? 1 : 0;
    }
    carried(test->carried(), "measured by " + from + " of site '" + control.peer() + "'", served);
    return served;
}

Result<void> Agent::State::be_stream(Channel stream, const Json &request, int stop) {
    std::shared_ptr<Target> test;
    {
        const std::lock_guard lock(mutex);
        test = target;
    }
    const Deadline deadline(longest(Order{.seconds = most_seconds}), stop);
    if (test) return test->attach(std::move(stream), request, deadline);
    const Error no{Errc::refused, "no test wants this stream"};
    (void)stream.send(refusal(no), Deadline(refusal_within, stop));
    return no;
}

Result<void> Agent::State::be_measurer(Channel &asker, const Json &request, const std::string &from,
                                       int stop) {
    const auto found = measure_for(*settings(), request, stop);
    if (!found) return found.error().within("asked by " + from);
    return asker.send({{"measurement", to_json(*found)}}, Deadline(refusal_within, stop));
}

// Connects to addresses of the list only: who has the key still cannot send this agent anywhere else.
Result<Measurement> Agent::State::measure_for(const AgentConfig &current, const Json &request, int stop) {
    auto order = order_from_json(model::at(request, "order"));
    if (!order) return std::move(order).error();
    if (order->from != current.site)
        return Error{Errc::denied,
                     "this is the agent of site '" + current.site + "', not of '" + order->from + "'"};
    const std::unique_lock mine(turn, std::try_to_lock);
    if (!mine) return busy_with_another(current.site);
    const auto most = limits(current);
    if (!most) return most.error();
    const auto granted = limited(*order, *most);
    const auto patience = std::min(longest(granted), model::number_at(request, "seconds").value_or(0));
    Care care{[&](const Address &address) { return current.admits(address); }, 0};
    auto found = measure_with(current.key, granted, Deadline(patience, stop), care);
    carried(care.carried, "measured towards site '" + order->to + "' at " + order->address,
            found ? Result<void>() : Result<void>(found.error()));
    return found;
}

} // namespace spider::probe
