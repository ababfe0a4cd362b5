// SPDX-License-Identifier: GPL-3.0-or-later
// Links: what callers get to see.
#include "broker/links.h"

#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::broker {

namespace {

constexpr double far_apart = 2; // pinned and measured, one as many times the other

std::string ago(Seconds age) { return plan::duration_words(std::max(age, 0.0)) + " ago"; }

} // namespace

Seconds Links::last_seen(const Ends &ends) const {
    const auto found = samples_.find(ends);
    Seconds last = 0;
    if (found != samples_.end())
        for (const auto &sample : found->second)
            last = std::max(last, sample.at);
    return last;
}

// Why nothing is known, or what does not fit together.
std::string Links::trouble_of(const Ends &ends, const std::optional<probe::Known> &known) const {
    const auto *pin = pinned(ends.first, ends.second);
    if (pin != nullptr && known) {
        const double ratio = pin->bandwidth_gbps / known->gbps;
        if (ratio > far_apart || ratio < 1 / far_apart)
            return "pinned; " + util::number(known->gbps, 3) + " Gbit/s were measured " +
                   ago(clock_.now() - known->measured_at);
    }
    std::string text;
    if (pin == nullptr && !known) {
        const auto last = last_seen(ends);
        text = last > 0 ? "last measured " + ago(clock_.now() - last) + ", older than max_age or incomplete"
                        : "never measured";
    }
    const auto pair = probe::pair_of(ends.first, ends.second);
    const auto failed = troubles_.find(pair);
    const auto more = failed != troubles_.end() ? failed->second : schedule_.kept_by(pair, clock_.now());
    if (more.empty()) return text;
    return text + (text.empty() ? "" : "; ") + more;
}

wire::LinkState Links::state_of(const Ends &ends, const Reserved &reserved) const {
    const auto &[from, to] = ends;
    wire::LinkState state;
    state.from = from;
    state.to = to;
    const auto seen = measured(from, to);
    if (seen) {
        state.gbps = seen->gbps;
        state.gbps_median = seen->gbps_median;
        state.rtt_ms = seen->rtt_ms;
        state.rtt_min_ms = seen->rtt_min_ms;
        state.rtt_p95_ms = seen->rtt_p95_ms;
        state.streams = seen->streams;
        state.source = probe::name(seen->source);
        state.samples = seen->samples;
    }
    state.measured_at = seen ? seen->measured_at : last_seen(ends);
    if (const auto *pin = pinned(from, to)) {
        state.gbps = pin->bandwidth_gbps;
        state.rtt_ms = pin->rtt_ms;
        state.source = "pinned";
    }
    const auto taken = reserved.find(ends);
    state.reserved_gbps = taken == reserved.end() ? 0 : taken->second;
    state.trouble = trouble_of(ends, seen);
    const auto pair = probe::pair_of(from, to);
    state.testing = schedule_.under_way(pair);
    state.next_due = schedule_.knows(pair) ? std::max(schedule_.due(pair), clock_.now()) : 0;
    return state;
}

wire::LinksView Links::view(const Reserved &reserved, const std::optional<probe::Pair> &only) const {
    wire::LinksView view;
    view.now = clock_.now();
    view.max_age = probe_.max_age;
    for (const auto &[from, from_agent] : agents_)
        for (const auto &[to, to_agent] : agents_)
            if (from != to && (!only || probe::pair_of(from, to) == *only))
                view.links.push_back(state_of({from, to}, reserved));
    return view;
}

std::string Links::unknown(const std::vector<std::string> &sites) const {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < sites.size(); ++i)
        for (std::size_t j = i + 1; j < sites.size(); ++j) {
            const Ends forth{sites[i], sites[j]}, back{sites[j], sites[i]};
            const auto missing = [&](const Ends &ends) {
                return pinned(ends.first, ends.second) == nullptr && !measured(ends.first, ends.second);
            };
            if (!missing(forth) && !missing(back)) continue;
            const auto &ends = missing(forth) ? forth : back;
            words.push_back(ends.first + " -> " + ends.second + " (" + trouble_of(ends, std::nullopt) + ")");
        }
    constexpr std::size_t most = 4;
    const auto count = words.size();
    words.resize(std::min(count, most));
    return util::join(words, ", ") + (count > most ? " and " + std::to_string(count - most) + " more" : "");
}

} // namespace spider::broker
