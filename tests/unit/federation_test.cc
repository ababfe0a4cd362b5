// SPDX-License-Identifier: GPL-3.0-or-later
// Snapshots made of values: what a flow between two sites crosses, and what is left of it.
#include "federation/federation.h"

#include <gtest/gtest.h>

#include <limits>
#include <malloc.h>

namespace spider::federation {
namespace {

constexpr SiteId a{0}, b{1}, c{2};
constexpr double gbit = 1e9 / 8; // bytes

Site named(const std::string &name) { return {.name = name}; }

std::vector<std::string> crossed(const Federation &federation, SiteId from, SiteId to) {
    std::vector<std::string> names;
    for (const int resource : federation.resources(from, to))
        names.push_back(federation.resource_name(resource));
    return names;
}

using Names = std::vector<std::string>;

TEST(Federation, FindsSitesByNameAndLinksByDirection) {
    const auto federation = Federation::make({named("a"), named("b")}, {{SiteId{0}, SiteId{1}, 10, 20}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->site("b")->id, SiteId{1});
    EXPECT_EQ(federation->site("c"), nullptr);
    EXPECT_EQ(federation->link(SiteId{0}, SiteId{1})->bandwidth_gbps, 10);
    EXPECT_FALSE(federation->link(SiteId{1}, SiteId{0}));
    EXPECT_FALSE(federation->link(SiteId{0}, SiteId{7}));
    EXPECT_FALSE(federation->link(SiteId{-1}, SiteId{0}));
}

TEST(Federation, SenselessLinksAndNamesAreRefusedByName) {
    const auto what = [](const Link &link) {
        return Federation::make({named("a"), named("b")}, {link}).error().what;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(what({SiteId{0}, SiteId{2}, 1, 1}), "a link names a site that does not exist");
    EXPECT_EQ(what({SiteId{0}, SiteId{0}, 1, 1}), "link a -> a: from a site to itself");
    for (const double bad : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()})
        EXPECT_EQ(what({SiteId{0}, SiteId{1}, bad, 1}),
                  "link a -> b: bandwidth must be a number above 0 Gbit/s");
    for (const double bad : {-1.0, nan})
        EXPECT_EQ(what({SiteId{1}, SiteId{0}, 1, bad}), "link b -> a: RTT must be a number of at least 0 ms");
    EXPECT_EQ(Federation::make({named("a"), named("a")}, {}).error().what, "two sites have the name a");
    EXPECT_EQ(Federation::make({named("")}, {}).error().what, "a site has no name");
}

TEST(Federation, SenselessGatewaysSharedLinksAndReservationsAreRefusedByName) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto about_site = [](Site site) { return Federation::make({std::move(site)}, {}).error().what; };
    EXPECT_EQ(about_site({.name = "a", .uplink_gbps = nan}),
              "site a: uplink must be a number of at least 0 Gbit/s, 0 = none given");
    EXPECT_EQ(about_site({.name = "a", .downlink_gbps = -1}),
              "site a: downlink must be a number of at least 0 Gbit/s, 0 = none given");
    EXPECT_EQ(about_site({.name = "a", .intra_rtt_ms = nan}),
              "site a: RTT inside must be a number of at least 0 ms");
    const auto what = [](Network network) {
        return Federation::make({named("a"), named("b")}, {{a, b, 1, 1}}, std::move(network)).error().what;
    };
    EXPECT_EQ(what({.shared = {{"", 1, {}}}, .reserved = {}}), "a shared link has no name");
    EXPECT_EQ(what({.shared = {{"sea", 1, {}}, {"sea", 1, {}}}, .reserved = {}}),
              "two shared links have the name sea");
    for (const double bad : {0.0, -1.0, nan})
        EXPECT_EQ(what({.shared = {{"sea", bad, {}}}, .reserved = {}}),
                  "shared link sea: gbps must be a number above 0 Gbit/s");
    EXPECT_EQ(what({.shared = {{"sea", 1, {{a, c}}}}, .reserved = {}}),
              "shared link sea: pair names a site that does not exist");
    EXPECT_EQ(what({.shared = {{"sea", 1, {{b, b}}}}, .reserved = {}}),
              "shared link sea: pair b -> b: from a site to itself");
    EXPECT_EQ(what({.shared = {}, .reserved = {{c, a, 1}}}),
              "a reservation names a site that does not exist");
    EXPECT_EQ(what({.shared = {}, .reserved = {{a, a, 1}}}), "reservation a -> a: from a site to itself");
    EXPECT_EQ(what({.shared = {}, .reserved = {{a, b, nan}}}),
              "reservation a -> b: gbps must be a number of at least 0 Gbit/s");
    EXPECT_EQ(Federation::make({named("a"), named("b")}, {{a, b, 1, 1, -1, 0}}).error().what,
              "link a -> b: streams and window_bytes must be at least 0, 0 = none given");
    EXPECT_EQ(Federation::make(std::vector<Site>(4097), {}).error().what, "4097 sites; at most 4096");
}

TEST(Federation, ALaterLinkBetweenTheSameSitesReplacesTheEarlier) {
    const auto federation =
        Federation::make({named("a"), named("b")}, {{a, b, 1, 1}, {b, a, 2, 2}, {a, b, 3, 3}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->link(a, b), (Link{a, b, 3, 3}));
    EXPECT_EQ(federation->link(b, a), (Link{b, a, 2, 2}));
    EXPECT_EQ(federation->links().size(), 2u);
}

TEST(Federation, MeasuredLinksAloneCrossJustThemselves) {
    const auto federation = Federation::make({named("a"), named("b")}, {{a, b, 4, 1}, {b, a, 2, 1}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(crossed(*federation, a, b), Names{"a -> b"});
    EXPECT_EQ(crossed(*federation, b, a), Names{"b -> a"});
    EXPECT_EQ(federation->capacity(federation->resources(a, b)[0]), 4 * gbit);
    EXPECT_TRUE(federation->resources(a, a).empty());
    EXPECT_TRUE(federation->resources(a, SiteId{2}).empty());
}

// 8 streams of 1 MB in 100 ms: 80 MB/s = 0.64 Gbit/s. In 10 ms the line is the limit.
TEST(Federation, AWindowLimitsALongLinkAndNotAShortOne) {
    const auto federation =
        Federation::make({named("a"), named("b"), named("c")}, {{a, b, 5, 100, 8, 1'000'000},
                                                                {a, c, 5, 10, 8, 1'000'000},
                                                                {b, a, 5, 100, 8, 0},
                                                                {c, a, 5, 0, 8, 1'000'000}});
    ASSERT_TRUE(federation);
    EXPECT_DOUBLE_EQ(federation->link(a, b)->bandwidth_gbps, 0.64);
    EXPECT_DOUBLE_EQ(federation->capacity(federation->resources(a, b)[0]), 80e6);
    EXPECT_EQ(federation->link(a, c)->bandwidth_gbps, 5);
    EXPECT_EQ(federation->link(b, a)->bandwidth_gbps, 5);
    EXPECT_EQ(federation->link(c, a)->bandwidth_gbps, 5);
}

TEST(Federation, AReservationLeavesTheRestAndNeverLessThanOnePercent) {
    const std::vector<Site> sites{named("a"), named("b")};
    const std::vector<Link> links{{a, b, 10, 1}, {b, a, 10, 1}};
    const auto left = [&](std::vector<Reservation> reserved) {
        return Federation::make(sites, links, {.shared = {}, .reserved = std::move(reserved)});
    };
    EXPECT_DOUBLE_EQ(left({{a, b, 3}, {a, b, 4}})->link(a, b)->bandwidth_gbps, 3);
    EXPECT_DOUBLE_EQ(left({{a, b, 3}, {a, b, 4}})->link(b, a)->bandwidth_gbps, 10);
    EXPECT_DOUBLE_EQ(left({{a, b, 25}})->link(a, b)->bandwidth_gbps, 0.1);
}

// The streams of others fill the line, not our window: 10 - 7 = 3 Gbit/s are left for a window of 4.
TEST(Federation, AReservationComesOffTheLineAndNotOffTheWindow) {
    const auto federation = Federation::make({named("a"), named("b")}, {{a, b, 10, 16, 8, 1'000'000}},
                                             {.shared = {}, .reserved = {{a, b, 7}}});
    EXPECT_DOUBLE_EQ(federation->link(a, b)->bandwidth_gbps, 3);
    const auto little = Federation::make({named("a"), named("b")}, {{a, b, 10, 16, 8, 1'000'000}},
                                         {.shared = {}, .reserved = {{a, b, 2}}});
    EXPECT_DOUBLE_EQ(little->link(a, b)->bandwidth_gbps, 4);
}

TEST(Federation, GatewaysAreSharedByAllThatLeavesOrEnters) {
    auto one = named("a"), two = named("b");
    one.uplink_gbps = 6;
    two.downlink_gbps = 4;
    const auto federation =
        Federation::make({one, two, named("c")}, {{a, b, 10, 1}, {a, c, 5, 1}, {c, b, 3, 1}},
                         {.shared = {}, .reserved = {{a, c, 1}}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(crossed(*federation, a, b), (Names{"a -> b", "uplink of a", "downlink of b"}));
    EXPECT_EQ(crossed(*federation, a, c), (Names{"a -> c", "uplink of a"}));
    EXPECT_EQ(crossed(*federation, c, b), (Names{"c -> b", "downlink of b"}));
    EXPECT_DOUBLE_EQ(federation->link(a, b)->bandwidth_gbps, 4);
    EXPECT_DOUBLE_EQ(federation->link(a, c)->bandwidth_gbps, 4);
    EXPECT_DOUBLE_EQ(federation->capacity(federation->resources(a, b)[1]), 5 * gbit);
}

TEST(Federation, ASharedLinkIsCrossedByItsPairsInTheirDirectionOnly) {
    const auto federation =
        Federation::make({named("a"), named("b"), named("c")}, {{a, c, 10, 1}, {b, c, 10, 1}, {c, a, 10, 1}},
                         {.shared = {{"sea", 8, {{a, c}, {b, c}, {a, c}, {a, b}}}}, .reserved = {{b, c, 5}}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(crossed(*federation, a, c), (Names{"a -> c", "shared sea"}));
    EXPECT_EQ(crossed(*federation, b, c), (Names{"b -> c", "shared sea"}));
    EXPECT_EQ(crossed(*federation, c, a), (Names{"c -> a"}));
    EXPECT_DOUBLE_EQ(federation->link(a, c)->bandwidth_gbps, 3);
    EXPECT_DOUBLE_EQ(federation->link(c, a)->bandwidth_gbps, 10);
}

TEST(Federation, AThousandSitesAllLinkedStayBelowSixtyMegabytes) {
    std::vector<Site> sites;
    std::vector<Link> links;
    for (int i = 0; i < 1024; ++i)
        sites.push_back(named("site" + std::to_string(i)));
    for (int i = 0; i < 1024; ++i)
        for (int j = 0; j < 1024; ++j)
            if (i != j) links.push_back({SiteId{i}, SiteId{j}, 1.0 + i % 7, 1.0 + j % 100});
    const auto used = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
    const auto before = used();
    const auto federation = Federation::make(sites, links);
    const auto after = used();
    ASSERT_TRUE(federation);
    RecordProperty("bytes", std::to_string(after - before));
    EXPECT_LE(after - before, 60'000'000u);
    EXPECT_EQ(federation->link(SiteId{1023}, SiteId{5})->bandwidth_gbps, 2);
    EXPECT_EQ(federation->site("site1000")->id, SiteId{1000});
}

} // namespace
} // namespace spider::federation
