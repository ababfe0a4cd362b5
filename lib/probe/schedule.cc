// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/schedule.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace spider::probe {

namespace {

constexpr Seconds day = 24 * 3600;
constexpr double jitter = 0.1;

// FNV-1a: of the pair, the seed and which time it is, between -1 and 1.
double chance(const Pair &pair, std::uint64_t seed, Seconds at) {
    std::uint64_t hash = 14695981039346656037u ^ seed;
    const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 1099511628211u; };
    for (const auto *name : {&pair.a, &pair.b})
        for (const char c : *name)
            mix(static_cast<unsigned char>(c));
    for (auto whole = static_cast<std::uint64_t>(at); whole > 0; whole >>= 8)
        mix(static_cast<unsigned char>(whole));
    return static_cast<double>(hash % 2001) / 1000 - 1;
}

} // namespace

Pair pair_of(const std::string &one, const std::string &other) {
    return one < other ? Pair{one, other} : Pair{other, one};
}

void Schedule::set(const Rules &rules, std::vector<Pair> pairs, std::uint64_t seed) {
    rules_ = rules;
    seed_ = seed;
    std::map<Pair, State> states;
    for (auto &pair : pairs) {
        const auto old = states_.find(pair);
        states.emplace(std::move(pair), old == states_.end() ? State{} : old->second);
    }
    states_ = std::move(states);
}

void Schedule::remember(const Pair &pair, Seconds at, double bytes) {
    spend(pair, at, bytes);
    const auto found = states_.find(pair);
    if (found == states_.end() || found->second.last_good >= at) return;
    found->second.last_good = found->second.last_tried = at;
    found->second.bytes = bytes;
}

void Schedule::spend(const Pair &pair, Seconds at, double bytes) {
    for (const auto &site : {pair.a, pair.b}) {
        auto &all = spent_[site];
        while (!all.empty() && all.front().at < at - day)
            all.pop_front();
        all.push_back({at, bytes});
    }
}

double Schedule::spent(const std::string &site, Seconds now) const {
    const auto found = spent_.find(site);
    double sum = 0;
    if (found != spent_.end())
        for (const auto &one : found->second)
            if (one.at >= now - day) sum += one.bytes;
    return sum;
}

double Schedule::cost(const State &state) const { return state.bytes > 0 ? state.bytes : rules_.test_bytes; }

Seconds Schedule::due(const Pair &pair, const State &state) const {
    if (state.wanted || state.last_tried <= 0) return 0;
    auto wait = rules_.interval;
    if (state.failures > 0) wait = std::min(wait, rules_.retry * std::exp2(std::min(state.failures - 1, 30)));
    return state.last_tried + wait * (1 + jitter * chance(pair, seed_, state.last_tried));
}

Seconds Schedule::due(const Pair &pair) const {
    const auto found = states_.find(pair);
    return found == states_.end() ? 0 : due(pair, found->second);
}

std::string Schedule::kept_by(const Pair &pair, Seconds now) const {
    const auto found = states_.find(pair);
    if (found == states_.end() || rules_.daily_bytes <= 0) return {};
    for (const auto &site : {pair.a, pair.b})
        if (spent(site, now) + cost(found->second) > rules_.daily_bytes)
            return "the daily budget of " + site + " is spent";
    return {};
}

void Schedule::want(const Pair &pair) {
    if (const auto found = states_.find(pair); found != states_.end()) found->second.wanted = true;
}

bool Schedule::wanted(const Pair &pair) const {
    const auto found = states_.find(pair);
    return found != states_.end() && found->second.wanted;
}

std::optional<Pair> Schedule::next(Seconds now) {
    const auto rank = [](const auto &entry) {
        const auto &[pair, state] = *entry;
        return std::tuple(!state.wanted, state.last_good > 0, state.failures, state.last_tried);
    };
    auto best = states_.end();
    for (auto at = states_.begin(); at != states_.end(); ++at) {
        const auto &[pair, state] = *at;
        if (busy_.contains(pair.a) || busy_.contains(pair.b)) continue;
        if (due(pair, state) > now || !kept_by(pair, now).empty()) continue;
        if (best == states_.end() || rank(at) < rank(best)) best = at;
    }
    if (best == states_.end()) return std::nullopt;
    best->second.wanted = false;
    running_.insert(best->first);
    busy_.insert({best->first.a, best->first.b});
    return best->first;
}

void Schedule::ended(const Pair &pair, Seconds now, double bytes, bool good) {
    running_.erase(pair);
    busy_.erase(pair.a);
    busy_.erase(pair.b);
    spend(pair, now, bytes);
    const auto found = states_.find(pair);
    if (found == states_.end()) return;
    auto &state = found->second;
    state.last_tried = now;
    state.failures = good ? 0 : state.failures + 1;
    if (!good) return;
    state.last_good = now;
    state.bytes = bytes;
}

} // namespace spider::probe
