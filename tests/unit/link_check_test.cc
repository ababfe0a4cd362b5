// SPDX-License-Identifier: GPL-3.0-or-later
// What parts are told of the plan's links, what they tell, and a whole look over loopback.
#include "cli/link_checker.h"

#include "util/fd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <netinet/in.h>
#include <sys/socket.h>

namespace spider::cli {
namespace {

using probe::Expected;
using probe::LinkCheck;

LinkCheck warned() {
    return {false, 2, std::string(64, 'a'), {{"s1", "s2", 0.1, 20}, {"s2", "s1", 0.2, 20}}};
}

TEST(LinkCheck, IsTheSameAfterItsText) {
    auto check = warned();
    for (const bool replan : {false, true}) {
        check.replan = replan;
        const auto text = to_text(check);
        EXPECT_EQ(text.find(' '), std::string::npos);
        const auto read = probe::parse_link_check(text);
        ASSERT_TRUE(read) << read.error().what;
        EXPECT_EQ(*read, check);
    }
    for (const auto *bad : {"", "warn;2;k", "hope;2;k;s1>s2@1@1", "warn;0.5;k;s1>s2@1@1", "warn;2;k;s1@1@1",
                            "warn;2;k;s1>s2@fast@1", "warn;2;k;s1>s2@1", "warn;2;k;>s2@1@1"})
        EXPECT_FALSE(probe::parse_link_check(bad)) << bad;
}

TEST(LinkCheck, WorseIsWorseByTheFactor) {
    const Expected expected{"s1", "s2", 0.1, 20};
    const auto said = [&](double gbps, double both, double rtt) {
        return probe::worse(expected, {.gbps = gbps, .gbps_both = both, .rtt_ms = rtt}, 2);
    };
    EXPECT_EQ(said(0.06, 0.051, 40), "");
    EXPECT_EQ(said(0.06, 0.04, 20), "the link s1 -> s2 carries 0.04 Gbit/s, and the plan counts on 0.1");
    EXPECT_EQ(said(0.1, 0.1, 42), "the link s1 -> s2 has a round trip of 42 ms, and the plan counts on 20");
}

TEST(LinkCheck, WhatWasSeenComesBackAsSamplesOfAJob) {
    const std::vector<probe::Sample> seen{
        {.from = "s1", .to = "s2", .at = 5, .gbps = 0.3, .gbps_both = 0.25, .rtt_ms = 21}};
    const auto text = probe::seen_text(seen);
    EXPECT_EQ(text, "s1>s2@0.25@21");
    const auto read = probe::parse_seen(text, 1e9);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->front().source, probe::Source::job);
    EXPECT_EQ(read->front().gbps, 0.25);
    for (const auto *bad : {"s1>s2@-1@3", "s1>s2@9999999@3", "s1>s1@1@1", "nonsense"})
        EXPECT_FALSE(probe::parse_seen(bad, 1e9)) << bad;
}

TEST(CheckPlace, IsReadFromTheWord) {
    const auto place = check_place("s1", "10.77.1.1/29501/s1@10.77.1.1,s2@fd00::2");
    ASSERT_TRUE(place);
    EXPECT_EQ(place->port, 29501);
    EXPECT_EQ(place->addresses.at("s2"), "fd00::2");
    for (const auto *bad : {"", "10.77.1.1/29501", "10.77.1.1/0/s1@a", "10.77.1.1/29501/s1"})
        EXPECT_FALSE(check_place("s1", bad)) << bad;
}

int free_port() {
    const util::Fd socket(::socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    socklen_t length = sizeof any;
    ::bind(socket.get(), reinterpret_cast<sockaddr *>(&any), sizeof any);
    ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&any), &length);
    return ntohs(any.sin6_port);
}

// One part alone: the other never comes.
TEST(CheckLinks, APartThatNeverComesIsAWarningAndNotTheEnd) {
    const auto check = warned();
    const CheckPlace place{"s1", free_port(), {{"s1", "127.0.0.1"}, {"s2", "127.0.0.9"}}};
    const auto checked = check_links(place, check);
    EXPECT_TRUE(checked.seen.empty());
    EXPECT_TRUE(checked.worse.empty());
    ASSERT_EQ(checked.trouble.size(), 1u);
    EXPECT_TRUE(checked.trouble[0].starts_with("the link s1 - s2 was not checked: ")) << checked.trouble[0];
}

TEST(CheckLinks, ATakenPortIsAWarning) {
    const util::Fd taken(::socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    socklen_t length = sizeof any;
    ::bind(taken.get(), reinterpret_cast<sockaddr *>(&any), sizeof any);
    ::listen(taken.get(), 1);
    ::getsockname(taken.get(), reinterpret_cast<sockaddr *>(&any), &length);
    const auto checked = check_links({"s1", ntohs(any.sin6_port), {}}, warned());
    ASSERT_EQ(checked.trouble.size(), 1u);
    EXPECT_TRUE(checked.trouble[0].starts_with("the links were not checked: ")) << checked.trouble[0];
}

} // namespace
} // namespace spider::cli
