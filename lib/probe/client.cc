// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/client.h"

#include "model/fields.h"
#include "probe/channel.h"
#include "probe/flow.h"
#include "probe/messages.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>
#include <thread>

#include <linux/tcp.h>
#include <netinet/in.h>

namespace spider::probe {
namespace {

constexpr Seconds connect_within = 10;
constexpr Seconds queue_drains = 0.2; // between two phases, and two round trips

struct Test {
    const Key &key;
    Order order; // as granted
    std::string token;
    Deadline deadline;
    Care &care;
    Measurement found;
};

Result<Channel> open(const std::string &host_port, const Key &key, const std::string &from,
                     const std::string &to, const Deadline &deadline, const Care &care) {
    const auto soon = deadline.within(connect_within);
    auto fd = connect_to(host_port, care.admits, soon);
    if (!fd) return std::move(fd).error();
    auto channel = Channel::greet(std::move(*fd), key, from, to, soon);
    if (!channel) return std::move(channel).error().within("agent at " + host_port);
    return channel;
}

Result<void> measure_trips(Test &test, Channel &control) {
    std::vector<Seconds> trips;
    for (int i = 0; i < echoes; ++i) {
        const auto sent = elapsed();
        if (auto answer = control.ask({{"do", "echo"}}, test.deadline); !answer)
            return std::move(answer).error().within("echo");
        trips.push_back(elapsed() - sent);
    }
    std::sort(trips.begin(), trips.end());
    const auto rank = [&](double share) {
        return trips[static_cast<std::size_t>(std::ceil(share * static_cast<double>(trips.size()))) - 1];
    };
    tcp_info info{};
    socklen_t size = sizeof info;
    test.found.rtt_min = trips.front();
    // The kernel's own view has no waiting for a processor in it.
    if (::getsockopt(control.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_min_rtt > 0)
        test.found.rtt_min = std::min(test.found.rtt_min, static_cast<double>(info.tcpi_min_rtt) * 1e-6);
    test.found.rtt_median = rank(0.5);
    test.found.rtt_p95 = rank(0.95);
    return {};
}

// The streams of a phase; they have ended when this goes.
class Streams {
  public:
    explicit Streams(const Test &test) : test_(test) {}
    Streams(const Streams &) = delete;
    Streams &operator=(const Streams &) = delete;
    ~Streams() {
        for (auto *flow : flows_)
            flow->end();
        for (auto &thread : threads_)
            thread.join();
    }
    Result<void> add(Flow &flow) {
        flows_.push_back(&flow);
        for (int i = 0; i < test_.order.streams; ++i)
            try {
                threads_.emplace_back([this, &flow] { run(flow); });
            } catch (const std::system_error &error) { // too many threads for this user
                return Error{Errc::system, std::string("no thread for a stream: ") + error.what()};
            }
        return {};
    }
    Result<void> all_attached() {
        std::unique_lock lock(mutex_);
        while (attached_ < threads_.size() && !trouble_) {
            if (auto good = test_.deadline.good(); !good) return good;
            changed_.wait_for(lock, std::chrono::milliseconds(50));
        }
        return trouble_ ? Result<void>(*trouble_) : Result<void>();
    }

  private:
    Result<util::Fd> attach(Flow &flow) {
        const auto &[key, order, token, deadline, care, found] = test_;
        auto channel = open(order.address, key, order.from, order.to, deadline, care);
        if (!channel) return std::move(channel).error();
        flow.join();
        const auto answer =
            channel->ask({{"do", "attach"}, {"token", token}, {"back", !flow.sends()}}, deadline);
        if (!answer) return answer.error();
        return std::move(*channel).release();
    }
    void run(Flow &flow) {
        auto fd = attach(flow);
        {
            const std::lock_guard lock(mutex_);
            ++attached_;
            if (!fd && !trouble_) trouble_ = fd.error().within("stream");
            changed_.notify_all();
        }
        if (!fd) return;
        flow.carry(fd->get(), test_.deadline);
        abandon(std::move(*fd));
    }

    const Test &test_;
    std::vector<Flow *> flows_;
    std::vector<std::thread> threads_;
    std::mutex mutex_; // of all below
    std::condition_variable changed_;
    std::size_t attached_ = 0;
    std::optional<Error> trouble_;
};

// What the agent knows of a direction and what this end knows make up its rate.
Result<Rate> joined(const Json &answer, std::string_view key, const Result<Rate> &own, bool sent_here) {
    if (!own) return own;
    std::optional<Error> trouble;
    const auto theirs = read_rate(model::at(answer, key), std::string(key), trouble);
    if (trouble) return Error{Errc::protocol, trouble->what};
    auto rate = sent_here ? theirs : *own;
    const auto &sender = sent_here ? *own : theirs;
    rate.retransmits = sender.retransmits;
    rate.delivery_gbps = sender.delivery_gbps;
    rate.congestion = sender.congestion;
    if (rate.gbps <= 0) return Error{Errc::unreachable, "nothing arrived"};
    return rate;
}

struct Phase {
    std::optional<Flow> forth, back;
    std::vector<Flow *> flows;
    Phase(const PhaseKind &kind, const Order &order) {
        if (kind.forth) flows.push_back(&forth.emplace(true, order));
        if (kind.back) flows.push_back(&back.emplace(false, order));
    }
};

Result<Json> run_phase(const Test &test, Channel &control, Phase &phase) {
    Streams streams(test);
    for (auto *flow : phase.flows)
        if (auto added = streams.add(*flow); !added) return std::move(added).error();
    if (auto attached = streams.all_attached(); !attached) return std::move(attached).error();
    if (auto started = control.ask({{"do", "start"}}, test.deadline); !started) return started;
    if (auto ended = conduct(phase.flows, test.order.seconds, test.deadline); !ended)
        return std::move(ended).error();
    return control.ask({{"do", "finish"}}, test.deadline);
}

Result<void> measure_phase(Test &test, Channel &control, int number, Rate *forth, Rate *back) {
    const auto place = "phase " + std::to_string(number + 1);
    if (auto ready = control.ask({{"do", "phase"}, {"phase", number}}, test.deadline); !ready)
        return std::move(ready).error().within(place);
    Phase phase(phase_kinds.at(static_cast<std::size_t>(number)), test.order);
    const auto answer = run_phase(test, control, phase);
    for (const auto *flow : phase.flows)
        test.care.carried += flow->bytes();
    if (!answer) return answer.error().within(place);
    for (auto *flow : phase.flows) {
        auto rate = joined(*answer, flow->sends() ? "received" : "sent", flow->rate(), flow->sends());
        if (!rate) return std::move(rate).error().within(place + (flow->sends() ? ": forth" : ": back"));
        *(flow->sends() ? forth : back) = *rate;
    }
    return {};
}

Result<void> measure_all(Test &test, Channel &control) {
    if (auto trips = measure_trips(test, control); !trips) return trips;
    auto &found = test.found;
    const std::array rates{std::pair(&found.forth, &found.back), std::pair(&found.forth, &found.back),
                           std::pair(&found.forth_both, &found.back_both)};
    for (int number = 0; number < static_cast<int>(rates.size()); ++number) {
        const auto &[forth, back] = rates.at(static_cast<std::size_t>(number));
        const auto pause = number > 0 ? queue_drains + 2 * found.rtt_median : 0;
        if (auto paused = test.deadline.pause(pause); !paused) return paused;
        if (auto measured = measure_phase(test, control, number, forth, back); !measured) return measured;
    }
    return {};
}

Result<Measurement> measurement_in(const Json &answer) {
    auto measurement = measurement_from_json(model::at(answer, "measurement"));
    if (!measurement) return Error{Errc::protocol, measurement.error().what};
    return measurement;
}

} // namespace

Result<Measurement> measure_with(const Key &key, const Order &order, const Deadline &deadline, Care &care) {
    auto control = open(order.address, key, order.from, order.to, deadline, care);
    if (!control) return std::move(control).error();
    const auto granted = control->ask({{"do", "test"}, {"order", to_json(order)}}, deadline);
    if (!granted) return granted.error();
    const auto terms = order_from_json(model::at(*granted, "order"));
    if (!terms) return Error{Errc::protocol, "agent at " + order.address + ": " + terms.error().what};
    Test test{key,
              limited(order, {terms->streams, terms->pace_gbps, 4 * terms->most_bytes}),
              model::text_at(*granted, "token"),
              deadline,
              care,
              {}};
    test.order.seconds = std::min(test.order.seconds, terms->seconds);
    if (auto measured = measure_all(test, *control); !measured)
        return std::move(measured).error().within("agent at " + order.address);
    test.found.at = util::SystemClock().now();
    test.found.streams = test.order.streams;
    return test.found;
}

Result<Measurement> measure(const Key &key, const Order &order, Seconds deadline) {
    Care care;
    return measure_with(key, order, Deadline(deadline), care);
}

Result<Measurement> ask(const std::string &agent, const Key &key, const Order &order, Seconds deadline,
                        int stop) {
    const Deadline end(deadline, stop);
    auto channel = open(agent, key, "", order.from, end, {});
    if (!channel) return std::move(channel).error();
    const auto answer =
        channel->ask({{"do", "measure"}, {"order", to_json(order)}, {"seconds", end.left()}}, end);
    if (!answer) return answer.error().within("site " + order.from);
    return measurement_in(*answer);
}

bool is_busy(const Error &error) {
    return error.code == Errc::refused && error.what.find("is busy with another") != std::string::npos;
}

} // namespace spider::probe
