// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/flow.h"

#include "probe/key.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include <linux/tcp.h> // has more of TCP_INFO than <netinet/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace spider::probe {
namespace {

constexpr Seconds interval = 0.1; // between two marks
constexpr Seconds warm_up = 1;    // slow start, left out
constexpr Seconds glance = 0.05;  // how often a stream that waits looks whether the flow has ended
constexpr int buffer = 1 << 17;   // bytes, one for each stream
constexpr double bytes_per_gbit = 1e9 / 8;

double gbps(const Mark &from, const Mark &to) {
    return to.at > from.at ? (to.bytes - from.bytes) / (to.at - from.at) / bytes_per_gbit : 0;
}

Error failed(const char *what) {
    return {Errc::unreachable, std::string(what) + ": " + std::strerror(errno)};
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// The kernel spreads what it sends; without that a stream would not keep to its pace, so it may not run.
Result<void> set_pace(int fd, double gbps) {
    const auto pace = static_cast<unsigned long>(gbps * bytes_per_gbit);
    const int unsent = 2 * buffer; // what the end of a phase throws away
    ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    if (gbps > 0 && ::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof pace) != 0)
        return failed("SO_MAX_PACING_RATE");
    return {};
}

} // namespace

Rate rate_of(std::span<const Mark> marks) {
    Rate rate;
    if (marks.size() < 2) return rate;
    const auto &end = marks.back();
    const auto whole = end.at - marks.front().at;
    const auto warm = marks.front().at + std::min(warm_up, whole / 2);
    const auto *first = &marks.front();
    for (const auto &mark : marks)
        if (std::abs(mark.at - warm) < std::abs(first->at - warm) && &mark != &end) first = &mark;
    rate.bytes = end.bytes;
    rate.gbps = gbps(*first, end);
    std::vector<double> rates;
    for (const auto *mark = first; mark != &end; ++mark)
        if (mark[1].at - mark[0].at > interval / 2 || rates.empty()) rates.push_back(gbps(mark[0], mark[1]));
    std::sort(rates.begin(), rates.end());
    rate.low = rates[static_cast<std::size_t>(std::ceil(0.1 * static_cast<double>(rates.size()))) - 1];
    return rate;
}

Flow::Flow(bool sends, const Order &granted) : sends_(sends), order_(granted) {}

bool Flow::join() {
    int joined = joined_;
    while (joined < order_.streams)
        if (joined_.compare_exchange_weak(joined, joined + 1)) return true;
    return false;
}

void Flow::carry(int fd, const Deadline &deadline) {
    if (wait_for_begin(deadline)) {
        auto carried = sends_ ? send(fd, deadline) : receive(fd, deadline);
        if (sends_) keep_facts(fd);
        if (!carried && !ended_) keep_trouble(std::move(carried).error());
    }
    ++left_;
}

bool Flow::wait_for_begin(const Deadline &deadline) {
    std::unique_lock lock(mutex_);
    while (!begun_ && !ended_ && deadline.good())
        changed_.wait_for(lock, std::chrono::duration<double>(glance));
    return begun_;
}

void Flow::begin() {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    begun_at_ = elapsed();
    marks_.push_back({begun_at_, carried_});
    changed_.notify_all();
}

void Flow::mark() {
    if (!sends_) marks_.push_back({elapsed(), carried_});
}

void Flow::end() {
    if (!over()) {
        mark();
    } else if (!sends_ && !marks_.empty() && last_at_ > marks_.front().at) { // nothing came after that
        std::erase_if(marks_, [&](const Mark &mark) { return mark.at >= last_at_; });
        marks_.push_back({last_at_, carried_});
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

// Takes from the bytes of the direction first, so that all streams together never send more than that.
Bytes Flow::reserve(Bytes most) {
    Bytes carried = carried_, mine = 0;
    do {
        mine = std::floor(std::min(most, order_.most_bytes - carried));
    } while (mine >= 1 && !carried_.compare_exchange_weak(carried, carried + mine));
    return mine;
}

Result<void> Flow::send(int fd, const Deadline &deadline) {
    const auto random = random_bytes(buffer); // nothing on the way can make it smaller
    if (auto paced = set_pace(fd, order_.pace_gbps / order_.streams); !paced) return paced;
    while (!ended_) {
        const auto mine = reserve(buffer);
        if (mine < 1) break;
        const auto put =
            ::send(fd, random.data(), static_cast<std::size_t>(mine), MSG_NOSIGNAL | MSG_DONTWAIT);
        carried_.fetch_sub(mine - static_cast<Bytes>(std::max<ssize_t>(put, 0)));
        if (put < 0 && (errno == ECONNRESET || errno == EPIPE)) return {}; // the receiver's time is over
        if (put < 0 && !try_again()) return failed("send");
        if (put >= 0) continue;
        auto ready = deadline.within(glance).wait(fd, POLLOUT);
        if (!ready && (ready.error().code != Errc::timeout || deadline.left() <= 0)) return ready;
    }
    ::shutdown(fd, SHUT_WR);
    char byte = 0; // the receiver closes once it has all
    while (!ended_ && ::recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && try_again())
        if (auto paused = deadline.within(glance).wait(fd, POLLIN);
            !paused && (paused.error().code != Errc::timeout || deadline.left() <= 0))
            return paused;
    return {};
}

Result<void> Flow::receive(int fd, const Deadline &deadline) {
    std::string bytes(buffer, '\0');
    while (!ended_ && carried_ < order_.most_bytes) {
        if (ahead_of_pace()) {
            if (auto paused = deadline.pause(glance / 10); !paused) return paused;
            continue;
        }
        const auto got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got == 0) return {};
        if (got < 0 && !try_again()) return failed("receive");
        if (got > 0) {
            carried_.fetch_add(static_cast<double>(got));
            last_at_ = elapsed();
            continue;
        }
        auto ready = deadline.within(glance).wait(fd, POLLIN);
        if (!ready && (ready.error().code != Errc::timeout || deadline.left() <= 0)) return ready;
    }
    return {};
}

// A sender that does not keep to the pace is slowed down by not reading. The half more is for bursts.
bool Flow::ahead_of_pace() const {
    constexpr Bytes burst = 1 << 22;
    if (order_.pace_gbps <= 0) return false;
    const auto due = order_.pace_gbps * bytes_per_gbit * (elapsed() - begun_at_);
    return carried_ > 1.5 * due + burst;
}

void Flow::keep_facts(int fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    std::array<char, 32> name{};
    socklen_t length = name.size() - 1;
    ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length);
    const std::lock_guard lock(mutex_);
    facts_.retransmits += info.tcpi_total_retrans;
    facts_.delivery_gbps += static_cast<double>(info.tcpi_delivery_rate) / bytes_per_gbit;
    facts_.congestion = name.data();
}

void Flow::keep_trouble(Error error) {
    const std::lock_guard lock(mutex_);
    if (!trouble_) trouble_ = std::move(error);
}

Result<Rate> Flow::rate() const {
    const std::lock_guard lock(mutex_);
    if (trouble_) return *trouble_;
    if (sends_) return facts_;
    auto rate = rate_of(marks_);
    if (rate.gbps <= 0) return Error{Errc::unreachable, "nothing arrived"};
    return rate;
}

Result<void> conduct(std::span<Flow *const> flows, Seconds seconds, const Deadline &deadline) {
    for (auto *flow : flows)
        flow->begin();
    const auto end = elapsed() + seconds;
    const auto step = std::min(interval, seconds / 10);
    for (auto next = elapsed() + step; elapsed() < end; next += step) {
        if (auto paused = deadline.pause(std::min(next, end) - elapsed()); !paused) return paused;
        if (auto good = deadline.good(); !good) return good;
        for (auto *flow : flows)
            flow->mark();
        if (std::all_of(flows.begin(), flows.end(), [](const auto *flow) { return flow->over(); })) break;
    }
    for (auto *flow : flows)
        if (!flow->sends()) flow->end();
    return {};
}

void abandon(util::Fd fd) {
    const linger now{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

} // namespace spider::probe
