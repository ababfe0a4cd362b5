// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/flow.h"
#include "probe/measurement.h"
#include "probe/order.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace spider::probe {
namespace {

constexpr Seconds now = 1e9, max_age = 1000;

Sample sample(double gbps, double rtt_ms, Source source = Source::probe, Seconds age = 10) {
    return {.from = "a", .to = "b", .source = source, .at = now - age, .gbps = gbps, .rtt_ms = rtt_ms};
}

TEST(Measurement, IsTheSameAfterItsJson) {
    const Rate rate{
        .gbps = 1.5, .low = 1.25, .bytes = 6e8, .retransmits = 7, .delivery_gbps = 2, .congestion = "cubic"};
    Measurement measurement{.at = 1e9, .streams = 4, .rtt_min = 0.01, .rtt_median = 0.011, .rtt_p95 = 0.02};
    measurement.forth = measurement.back_both = rate;
    measurement.back.gbps = 0.5;
    const auto again = measurement_from_json(to_json(measurement));
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(*again, measurement);
}

TEST(Measurement, WithoutARateIsAnErrorThatNamesIt) {
    auto json = to_json(Measurement{.streams = 4});
    json["back"].erase("gbps");
    EXPECT_EQ(measurement_from_json(json).error().what,
              "measurement: back: gbps: missing; expected a number of at least 0");
    EXPECT_FALSE(measurement_from_json(Json::array()));
}

TEST(Measurement, GivesASampleOfEachDirection) {
    Measurement measurement{.at = now, .streams = 4, .rtt_min = 0.01, .rtt_median = 0.011, .rtt_p95 = 0.02};
    measurement.forth.gbps = 3, measurement.back.gbps = 1;
    measurement.forth_both.gbps = 2, measurement.back_both.gbps = 0.5;
    const auto [forth, back] = samples_of(measurement, "a", "b");
    EXPECT_EQ(forth.from + forth.to + back.from + back.to, "abba");
    EXPECT_EQ(forth.gbps, 3);
    EXPECT_EQ(forth.gbps_both, 2);
    EXPECT_EQ(back.gbps, 1);
    EXPECT_EQ(back.gbps_both, 0.5);
    EXPECT_EQ(back.rtt_ms, 11);
}

TEST(Sample, IsTheSameAfterItsJson) {
    auto one = sample(1.5, 20, Source::perfsonar);
    one.gbps_low = 1, one.gbps_both = 1.25, one.rtt_min_ms = 19, one.rtt_p95_ms = 30;
    one.streams = 4, one.retransmits = 12, one.congestion = "bbr";
    const auto again = sample_from_json(to_json(one));
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(*again, one);
}

TEST(Plausible, NoLinkIsLikeThat) {
    EXPECT_TRUE(plausible(sample(10, 20)));
    EXPECT_TRUE(plausible(sample(10, 0)));
    EXPECT_TRUE(plausible(sample(0, 20)));
    for (const auto &bad :
         {sample(0, 0), sample(-1, 20), sample(10, -1), sample(1e9, 20), sample(10, 1e9),
          sample(std::numeric_limits<double>::quiet_NaN(), 20),
          sample(std::numeric_limits<double>::infinity(), 20), sample(10, 20, Source::probe, now)})
        EXPECT_EQ(plausible(bad).error().code, Errc::invalid) << bad.gbps << " " << bad.rtt_ms;
    auto self = sample(10, 20);
    self.to = "a";
    EXPECT_FALSE(plausible(self));
}

TEST(Known, AnUnknownLinkIsNothingAndNeverZero) {
    EXPECT_FALSE(known({}, now, max_age));
    EXPECT_FALSE(known(std::array{sample(10, 0)}, now, max_age)) << "no round trip";
    EXPECT_FALSE(known(std::array{sample(0, 20)}, now, max_age)) << "no bandwidth";
    const auto both = known(std::array{sample(10, 0), sample(0, 20)}, now, max_age);
    ASSERT_TRUE(both);
    EXPECT_EQ(both->gbps, 10);
    EXPECT_EQ(both->rtt_ms, 20);
}

TEST(Known, WhatIsTooOldIsUnknown) {
    EXPECT_TRUE(known(std::array{sample(10, 20, Source::probe, max_age)}, now, max_age));
    EXPECT_FALSE(known(std::array{sample(10, 20, Source::probe, max_age + 1)}, now, max_age));
}

TEST(Known, TheTenthPercentileIsTheNearestRankOfTheLatestEight) {
    std::vector<Sample> samples;
    for (int i = 1; i <= 20; ++i) // the latest is the first: 1, 2, ... 20
        samples.push_back(sample(i, 20, Source::probe, i));
    const auto found = known(samples, now, max_age);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->samples, 8);
    EXPECT_EQ(found->gbps, 1) << "ceil(0.1 * 8) = 1st of 1 to 8";
    EXPECT_EQ(found->gbps_median, 4) << "ceil(0.5 * 8) = 4th";
}

TEST(Known, OfAloneAndTogetherTheLowerOneCounts) {
    auto one = sample(10, 20);
    one.gbps_both = 4;
    EXPECT_EQ(known(std::array{one}, now, max_age)->gbps, 4);
    one.gbps_both = 12;
    EXPECT_EQ(known(std::array{one}, now, max_age)->gbps, 10);
}

TEST(Known, OfTwoThatContradictTheMoreTrustedOneCounts) {
    const std::array both{sample(100, 1, Source::file, 1), sample(2, 30, Source::iperf3, 500)};
    const auto found = known(both, now, max_age);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->source, Source::iperf3);
    EXPECT_EQ(found->gbps, 2);
    EXPECT_EQ(found->rtt_ms, 30);
    const std::array old{sample(100, 1, Source::file, 1), sample(2, 30, Source::iperf3, max_age + 1)};
    EXPECT_EQ(known(old, now, max_age)->source, Source::file);
}

TEST(Known, TheOrderOfTrustIsThatOfTheNames) {
    std::vector<Sample> samples;
    for (const auto *text : {"file", "iperf3", "perfsonar", "job", "probe"}) {
        const auto source = source_named(text);
        ASSERT_TRUE(source) << text;
        EXPECT_EQ(name(*source), text);
        samples.push_back(sample(1 + static_cast<double>(samples.size()), 20, *source));
        EXPECT_EQ(known(samples, now, max_age)->rtt_ms, 20);
        const auto best = known(samples, now, max_age)->source;
        EXPECT_TRUE(best == *source || (best == Source::job && *source == Source::probe)) << text;
    }
    EXPECT_EQ(known(samples, now, max_age)->samples, 2) << "what a job saw is as good as what the agents saw";
    EXPECT_FALSE(source_named("rumour"));
}

TEST(Rate, LeavesTheFirstSecondOut) {
    std::vector<Mark> marks;
    for (int i = 0; i <= 30; ++i) // nothing in the first second, then 1 Gbit/s
        marks.push_back({5 + 0.1 * i, i <= 10 ? 0.0 : 12.5e6 * (i - 10)});
    const auto rate = rate_of(marks);
    EXPECT_NEAR(rate.gbps, 1, 1e-9);
    EXPECT_NEAR(rate.low, 1, 1e-9);
    EXPECT_EQ(rate.bytes, 250e6);
}

TEST(Rate, OfAShortPhaseLeavesHalfOut) {
    std::vector<Mark> marks;
    for (int i = 0; i <= 10; ++i) // 0.5 s at 8 Gbit/s, 0.5 s at 2
        marks.push_back({0.1 * i, i <= 5 ? 1e8 * i : 5e8 + 25e6 * (i - 5)});
    EXPECT_NEAR(rate_of(marks).gbps, 2, 1e-9);
}

TEST(Rate, TheLowOneIsTheTenthPercentileOfTheIntervals) {
    std::vector<Mark> marks{{0, 0}};
    for (int i = 1; i <= 40; ++i) // one interval in ten has nothing
        marks.push_back({0.1 * i, marks.back().bytes + (i % 10 == 0 ? 0 : 12.5e6)});
    const auto rate = rate_of(marks);
    EXPECT_NEAR(rate.gbps, 0.9, 1e-9);
    EXPECT_NEAR(rate.low, 0, 1e-9);
}

TEST(Rate, OfNothingIsZero) {
    EXPECT_EQ(rate_of({}).gbps, 0);
    EXPECT_EQ(rate_of(std::array{Mark{1, 0}}).gbps, 0);
    EXPECT_EQ(rate_of(std::array{Mark{1, 0}, Mark{1, 5}}).gbps, 0);
}

TEST(Order, KeepsToTheLimitsAndAsksForNoMoreThanItDid) {
    const Order order{.streams = 12, .most_bytes = 4e9, .pace_gbps = 0};
    const auto granted = limited(order, {.streams = 4, .gbps = 2, .bytes = 1e9});
    EXPECT_EQ(granted.streams, 4);
    EXPECT_EQ(granted.pace_gbps, 2);
    EXPECT_EQ(granted.most_bytes, 0.25e9) << "forth, back, and both at once";
    const auto modest =
        limited({.streams = 1, .most_bytes = 1e6, .pace_gbps = 0.5}, {.gbps = 2, .bytes = 1e9});
    EXPECT_EQ(modest.streams, 1);
    EXPECT_EQ(modest.pace_gbps, 0.5);
    EXPECT_EQ(modest.most_bytes, 1e6);
}

TEST(Order, IsTheSameAfterItsJsonAndItsLimitsHold) {
    const Order order{"a", "b", "[::1]:7711", 8, 2.5, 1e9, 0.25};
    EXPECT_EQ(*order_from_json(to_json(order)), order);
    for (const auto &[key, value] : {std::pair<std::string, Json>{"streams", 17},
                                     {"streams", 0},
                                     {"streams", "4"},
                                     {"seconds", 61},
                                     {"seconds", -1},
                                     {"most_bytes", -1},
                                     {"pace_gbps", -1},
                                     {"pace_gbps", nullptr}}) {
        auto json = to_json(order);
        json[key] = value;
        EXPECT_FALSE(order_from_json(json)) << key;
    }
}

} // namespace
} // namespace spider::probe
