// SPDX-License-Identifier: GPL-3.0-or-later
// Which two sites are measured next: never two tests at one site, pairs that were never measured first, then
// those measured longest ago, no site beyond its daily bytes. Pure but for what it remembers; times come in.
#pragma once

#include "util/clock.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spider::probe {

using util::Seconds;

// Both directions are measured together: a < b.
struct Pair {
    std::string a, b;
    auto operator<=>(const Pair &) const = default;
};
Pair pair_of(const std::string &one, const std::string &other);

struct Rules {
    Seconds interval = 4 * 3600; // between two tests of a pair, give or take a tenth
    Seconds retry = 60;          // after a failure; doubled with each, at most the interval
    double daily_bytes = 0;      // that tests may move at a site in 24 hours, both ways; 0 = no limit
    double test_bytes = 0;       // what a test is taken to move before there was one
};

class Schedule {
  public:
    // What is known of pairs that stay is kept. The seed is of the jitter.
    void set(const Rules &rules, std::vector<Pair> pairs, std::uint64_t seed = 1);
    // From history: a test that ended then and moved so much.
    void remember(const Pair &pair, Seconds at, double bytes);

    void want(const Pair &pair); // at the next chance, whatever its age
    // The pair whose turn it is now; its sites are busy until ended().
    std::optional<Pair> next(Seconds now);
    void ended(const Pair &pair, Seconds now, double bytes, bool good);

    [[nodiscard]] bool under_way(const Pair &pair) const { return running_.contains(pair); }
    [[nodiscard]] bool wanted(const Pair &pair) const;
    [[nodiscard]] bool knows(const Pair &pair) const { return states_.contains(pair); }
    [[nodiscard]] Seconds due(const Pair &pair) const; // since the epoch; 0 = at once, or no such pair
    // Why a pair that is due is not measured: "the daily budget of s1 is spent". Empty: nothing keeps it.
    [[nodiscard]] std::string kept_by(const Pair &pair, Seconds now) const;

  private:
    struct State {
        Seconds last_good = 0; // 0 = never
        Seconds last_tried = 0;
        double bytes = 0; // that its last test moved
        int failures = 0; // since the last good one
        bool wanted = false;
    };
    struct Spent {
        Seconds at = 0;
        double bytes = 0;
    };
    [[nodiscard]] Seconds due(const Pair &pair, const State &state) const;
    [[nodiscard]] double cost(const State &state) const;
    [[nodiscard]] double spent(const std::string &site, Seconds now) const;
    void spend(const Pair &pair, Seconds at, double bytes);

    Rules rules_;
    std::uint64_t seed_ = 1;
    std::map<Pair, State> states_;
    std::set<Pair> running_;
    std::set<std::string> busy_; // sites
    std::map<std::string, std::deque<Spent>> spent_;
};

} // namespace spider::probe
