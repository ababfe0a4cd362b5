// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/target.h"

#include <algorithm>

namespace spider::probe {
namespace {

constexpr Seconds idle = 15;     // of the client, between two frames
constexpr Seconds to_leave = 2;  // of the streams, once a phase has ended
constexpr int most_echoes = 100; // more than a client needs

Error out_of_turn(std::string_view what) {
    return {Errc::protocol, "out of turn: '" + std::string(what.substr(0, 20)) + "'"};
}

} // namespace

Target::Phase::Phase(const PhaseKind &kind, const Order &order) {
    if (kind.forth) flows.push_back(&forth.emplace(false, order));
    if (kind.back) flows.push_back(&back.emplace(true, order));
}

bool Target::Phase::all(bool (Flow::*is)() const) const {
    return std::all_of(flows.begin(), flows.end(), [is](const Flow *flow) { return (flow->*is)(); });
}

std::shared_ptr<Target::Phase> Target::phase() {
    const std::lock_guard lock(mutex_);
    return phase_;
}

Result<void> Target::serve(Channel &control, const Deadline &deadline) {
    auto served = control.send({{"order", to_json(order_)}, {"token", token_}}, deadline);
    while (served) {
        const auto request = control.receive(deadline.within(idle));
        const bool gone = !request && request.error().code == Errc::unreachable;
        if (gone && next_ == static_cast<int>(phase_kinds.size()) && !phase()) return {};
        served = request ? answer(control, *request, deadline) : Result<void>(request.error());
    }
    end_phase();
    return served;
}

Result<void> Target::answer(Channel &control, const Json &request, const Deadline &deadline) {
    const auto what = model::text_at(request, "do");
    if (what == "echo" && ++echoed_ <= most_echoes) return control.send({{"echo", true}}, deadline);
    if (what == "phase") {
        if (auto ready = prepare(request); !ready) return ready;
        return control.send({{"phase", next_}}, deadline);
    }
    if (what == "start") return run(control, deadline);
    return out_of_turn(what);
}

// Each phase comes once: what a test can carry at most is known beforehand.
Result<void> Target::prepare(const Json &request) {
    if (phase() || model::number_at(request, "phase").value_or(-1) != next_ ||
        next_ >= static_cast<int>(phase_kinds.size()))
        return out_of_turn("phase");
    auto fresh = std::make_shared<Phase>(phase_kinds.at(static_cast<std::size_t>(next_)), order_);
    const std::lock_guard lock(mutex_);
    phase_ = std::move(fresh);
    return {};
}

Result<void> Target::run(Channel &control, const Deadline &deadline) {
    const auto current = phase();
    if (!current || !current->all(&Flow::complete)) return out_of_turn("start");
    if (auto sent = control.send({{"started", true}}, deadline); !sent) return sent;
    if (auto ended = conduct(current->flows, order_.seconds, deadline); !ended) return ended;
    auto request = control.receive(deadline.within(idle));
    if (!request) return std::move(request).error();
    if (model::text_at(*request, "do") != "finish") return out_of_turn("finish");
    end_phase();
    ++next_;
    Json answer;
    for (const auto *flow : current->flows) {
        auto rate = flow->rate();
        if (!rate) return std::move(rate).error();
        answer[flow->sends() ? "sent" : "received"] = to_json(*rate);
    }
    return control.send(answer, deadline);
}

void Target::end_phase() {
    const auto current = phase();
    if (!current) return;
    for (auto *flow : current->flows)
        flow->end();
    const Deadline leaving(to_leave);
    while (!current->all(&Flow::over) && current->all(&Flow::complete) && leaving.pause(0.002) &&
           leaving.left() > 0)
        continue;
    for (const auto *flow : current->flows)
        carried_ += flow->bytes();
    const std::lock_guard lock(mutex_);
    phase_.reset();
}

Result<void> Target::attach(Channel stream, const Json &request, const Deadline &deadline) {
    const auto current = phase();
    const auto token = model::text_at(request, "token");
    const bool known = same(hmac(token_, token), hmac(token_, token_));
    auto *flow = !current                          ? nullptr
                 : model::bool_at(request, "back") ? (current->back ? &*current->back : nullptr)
                 : current->forth                  ? &*current->forth
                                                   : nullptr;
    if (!known || flow == nullptr || !flow->join()) {
        const Error no{Errc::refused, "no test wants this stream"};
        (void)stream.send(refusal(no), deadline);
        return no;
    }
    auto sent = stream.send({{"attached", true}}, deadline);
    auto fd = std::move(stream).release();
    flow->carry(fd.get(), deadline);
    abandon(std::move(fd));
    return sent;
}

} // namespace spider::probe
