// SPDX-License-Identifier: GPL-3.0-or-later
// Which pair of sites is measured next: the claims of probe/schedule.h, walked through with a clock of our
// own.
#include "probe/schedule.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace spider::probe {
namespace {

constexpr Seconds start = 1'800'000'000;

std::vector<Pair> all_pairs(int sites) {
    std::vector<Pair> pairs;
    for (int i = 0; i < sites; ++i)
        for (int j = i + 1; j < sites; ++j)
            pairs.push_back({"s" + std::to_string(i), "s" + std::to_string(j)});
    return pairs;
}

struct Walk {
    Schedule schedule;
    Seconds now = start;
    std::vector<std::pair<Pair, Seconds>> tests; // when each began
    std::size_t most_at_once = 0;

    // Tests of 10 s each, begun as soon as the schedule allows, for so long.
    void run(Seconds long_, double bytes = 1, bool good = true) {
        std::vector<std::pair<Seconds, Pair>> running;
        for (const auto end = now + long_; now < end; now += 1) {
            std::erase_if(running, [&](const auto &one) {
                if (one.first > now) return false;
                schedule.ended(one.second, now, bytes, good);
                return true;
            });
            while (const auto pair = schedule.next(now)) {
                for (const auto &[until, other] : running)
                    for (const auto &site : {pair->a, pair->b})
                        EXPECT_TRUE(site != other.a && site != other.b) << site << " is in two tests";
                running.emplace_back(now + 10, *pair);
                tests.emplace_back(*pair, now);
                most_at_once = std::max(most_at_once, running.size());
            }
        }
        for (const auto &[until, pair] : running)
            schedule.ended(pair, now, bytes, good);
    }
    [[nodiscard]] std::ptrdiff_t count(const Pair &pair) const {
        return std::count_if(tests.begin(), tests.end(),
                             [&](const auto &test) { return test.first == pair; });
    }
};

TEST(ProbeSchedule, EightSitesAreMeasuredCompletelyAndNoTwoTestsShareASite) {
    Walk walk;
    walk.schedule.set({.interval = 3600}, all_pairs(8));
    walk.run(200);
    for (const auto &pair : all_pairs(8))
        EXPECT_EQ(walk.count(pair), 1) << pair.a << " " << pair.b;
    EXPECT_GE(walk.most_at_once, 3u) << "sites stood idle while others were measured";
}

TEST(ProbeSchedule, APairComesAgainAfterTheIntervalGiveOrTakeATenth) {
    Walk walk;
    walk.schedule.set({.interval = 1000}, all_pairs(4));
    walk.run(20'000);
    std::map<Pair, Seconds> last;
    std::set<Seconds> gaps;
    for (const auto &[pair, at] : walk.tests) {
        if (last.contains(pair)) {
            const auto gap = at - last[pair] - 10; // a test takes 10 s
            EXPECT_GE(gap, 899);
            EXPECT_LE(gap, 1160); // its sites may be busy with up to five others
            gaps.insert(gap);
        }
        last[pair] = at;
    }
    EXPECT_GT(gaps.size(), 20u) << "no jitter: all would be measured at once for ever";
}

TEST(ProbeSchedule, PairsThatWereNeverMeasuredComeFirstThenTheOldest) {
    Schedule schedule;
    schedule.set({.interval = 100}, {{"a", "b"}, {"a", "c"}, {"a", "d"}});
    schedule.remember({"a", "b"}, start - 5000, 1);
    schedule.remember({"a", "d"}, start - 9000, 1);
    for (const auto *second : {"c", "d", "b"}) {
        const auto pair = schedule.next(start);
        ASSERT_TRUE(pair);
        EXPECT_EQ(pair->b, second);
        EXPECT_FALSE(schedule.next(start)) << "a is in all of them";
        schedule.ended(*pair, start, 1, true);
    }
    EXPECT_FALSE(schedule.next(start)) << "all are fresh";
}

TEST(ProbeSchedule, AWantedPairComesBeforeAllOthersWhateverItsAge) {
    Schedule schedule;
    schedule.set({.interval = 1000}, {{"a", "b"}, {"a", "c"}});
    schedule.remember({"a", "b"}, start - 1, 1);
    schedule.want({"a", "b"});
    EXPECT_EQ(schedule.next(start), (Pair{"a", "b"}));
    schedule.ended({"a", "b"}, start + 10, 1, true);
    EXPECT_EQ(schedule.next(start + 10), (Pair{"a", "c"}));
}

TEST(ProbeSchedule, AFailureIsTriedAgainSoonAndEachTimeLater) {
    Walk walk;
    walk.schedule.set({.interval = 100'000, .retry = 60}, {{"a", "b"}});
    walk.run(10'000, 0, false);
    ASSERT_GE(walk.tests.size(), 5u);
    EXPECT_LE(walk.tests.size(), 9u);
    for (std::size_t i = 2; i < walk.tests.size(); ++i)
        EXPECT_GT(walk.tests[i].second - walk.tests[i - 1].second,
                  1.3 * (walk.tests[i - 1].second - walk.tests[i - 2].second));
}

TEST(ProbeSchedule, NoSiteGoesBeyondItsDailyBytes) {
    Walk walk;
    walk.schedule.set({.interval = 600, .daily_bytes = 1000, .test_bytes = 50}, all_pairs(4));
    walk.run(3 * 86400, 90);
    std::map<std::string, std::vector<Seconds>> at;
    for (const auto &[pair, when] : walk.tests)
        for (const auto &site : {pair.a, pair.b})
            at[site].push_back(when);
    for (const auto &[site, times] : at) {
        std::size_t most = 0;
        for (const auto from : times)
            most = std::max<std::size_t>(most, std::count_if(times.begin(), times.end(), [&](Seconds one) {
                                             return one >= from && one < from + 86400;
                                         }));
        EXPECT_LE(most * 90, 1000u) << site;
        EXPECT_GE(times.size(), 30u) << site << ": the budget of each day is there to be used";
    }
    EXPECT_NE(walk.schedule.kept_by({"s0", "s1"}, walk.now), "");
}

TEST(ProbeSchedule, APairThatLeavesIsForgottenAndOneThatStaysIsNot) {
    Schedule schedule;
    schedule.set({.interval = 1000}, {{"a", "b"}, {"c", "d"}});
    schedule.remember({"a", "b"}, start, 1);
    schedule.set({.interval = 1000}, {{"a", "b"}});
    EXPECT_FALSE(schedule.knows({"c", "d"}));
    EXPECT_FALSE(schedule.next(start + 1)) << "a - b is fresh";
    EXPECT_GT(schedule.due({"a", "b"}), start + 800);
}

} // namespace
} // namespace spider::probe
