// SPDX-License-Identifier: GPL-3.0-or-later
// Routes over sites that forward, against every simple path.
#include "federation/federation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

namespace spider::federation {
namespace {

constexpr SiteId a{0}, b{1}, c{2}, d{3};

Site named(const std::string &name, bool transit = false) { return {.name = name, .transit = transit}; }

std::vector<std::string> crossed(const Federation &federation, SiteId from, SiteId to) {
    std::vector<std::string> names;
    for (const int resource : federation.resources(from, to))
        names.push_back(federation.resource_name(resource));
    return names;
}

using Names = std::vector<std::string>;

TEST(Routes, OnlyASiteThatForwardsIsCrossed) {
    const std::vector<Link> links{{a, b, 10, 5}, {b, c, 4, 7}};
    EXPECT_FALSE(Federation::make({named("a"), named("b"), named("c")}, links)->link(a, c));
    EXPECT_FALSE(Federation::make({named("a", true), named("b"), named("c", true)}, links)->link(a, c));
    const auto federation = Federation::make({named("a"), named("b", true), named("c")}, links);
    EXPECT_EQ(federation->link(a, c), (Link{a, c, 4, 12}));
    EXPECT_FALSE(federation->link(c, a));
    EXPECT_EQ(crossed(*federation, a, c), (Names{"a -> c", "a -> b", "b -> c"}));
    EXPECT_EQ(crossed(*federation, a, b), Names{"a -> b"});
}

TEST(Routes, ASiteThatIsNotRoutableIsInNoRoute) {
    const std::vector<Link> links{{a, b, 10, 5}, {b, c, 4, 7}};
    auto middle = named("b", true), end = named("c");
    middle.routable = false;
    EXPECT_FALSE(Federation::make({named("a"), middle, end}, links)->link(a, c));
    middle.routable = true;
    end.routable = false;
    const auto federation = Federation::make({named("a"), middle, end}, links);
    EXPECT_FALSE(federation->link(a, c));
    EXPECT_TRUE(federation->link(b, c));
}

TEST(Routes, AMeasuredLinkIsUsedEvenWhereARouteWouldBeWider) {
    const auto federation = Federation::make({named("a"), named("b", true), named("c")},
                                             {{a, b, 10, 5}, {b, c, 10, 7}, {a, c, 1, 50}});
    EXPECT_EQ(federation->link(a, c), (Link{a, c, 1, 50}));
    EXPECT_EQ(crossed(*federation, a, c), Names{"a -> c"});
}

// To b the way over d is wider, but behind b all is narrow: then the shorter way is right.
TEST(Routes, TheWiderBeginningIsNotTakenWhenTheEndIsNarrow) {
    const SiteId e{4};
    const auto federation =
        Federation::make({named("a"), named("b", true), named("c"), named("d", true), named("e", true)},
                         {{a, e, 5, 1}, {e, b, 5, 1}, {a, d, 9, 10}, {d, b, 9, 10}, {b, c, 2, 1}});
    EXPECT_EQ(federation->link(a, b), (Link{a, b, 9, 20}));
    EXPECT_EQ(federation->link(a, c), (Link{a, c, 2, 3}));
    EXPECT_EQ(crossed(*federation, a, c), (Names{"a -> c", "a -> e", "e -> b", "b -> c"}));
}

TEST(Routes, AReservationAlongARouteIsTakenFromItsLinksAndGateways) {
    auto middle = named("b", true);
    middle.uplink_gbps = 6;
    const auto federation = Federation::make({named("a"), middle, named("c"), named("d")},
                                             {{a, b, 10, 5}, {b, c, 8, 7}, {b, d, 8, 7}},
                                             {.shared = {}, .reserved = {{a, c, 5}}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(crossed(*federation, a, c), (Names{"a -> c", "a -> b", "b -> c", "uplink of b"}));
    EXPECT_DOUBLE_EQ(federation->link(a, b)->bandwidth_gbps, 5);
    EXPECT_DOUBLE_EQ(federation->link(b, d)->bandwidth_gbps, 1);
    EXPECT_DOUBLE_EQ(federation->link(a, c)->bandwidth_gbps, 1);
}

// Each link carries 8 MB per 10 ms = 6.4 Gbit/s, but an answer over both takes 20 ms: 3.2 Gbit/s.
TEST(Routes, AWindowIsAnsweredFromTheFarEnd) {
    const auto federation = Federation::make({named("a"), named("b", true), named("c")},
                                             {{a, b, 10, 10, 8, 1'000'000}, {b, c, 10, 10, 8, 1'000'000}});
    EXPECT_DOUBLE_EQ(federation->link(a, b)->bandwidth_gbps, 6.4);
    EXPECT_DOUBLE_EQ(federation->link(a, c)->bandwidth_gbps, 3.2);
}

// The example of spiderflow-federation(5), with the numbers that stand there.
TEST(Routes, TheExampleOfTheManualGivesItsNumbers) {
    const auto json = model::parse_json(R"({
      "sites": [
        {"name": "ams", "gpu": "h100", "nodes": 4, "gpus_per_node": 8},
        {"name": "nyc", "gpu": "a100", "nodes": 2, "gpus_per_node": 8,
         "transit": true, "uplink_gbps": 20},
        {"name": "sea", "gpu": "h100", "nodes": 8, "gpus_per_node": 8,
         "free_nodes": 2,
         "later": [{"after_seconds": 3600, "free_nodes": 6}]}
      ],
      "bw_gbps": [[null, 10, null], [10, null, 8], [null, 8, null]],
      "rtt_ms": [[null, 80, null], [80, null, 60], [null, 60, null]],
      "streams": 16,
      "window_bytes": 4194304,
      "reserved": [{"from": "nyc", "to": "sea", "gbps": 2}]
    })");
    const auto federation = read_federation(*json);
    ASSERT_TRUE(federation) << federation.error().what;
    EXPECT_NEAR(federation->link(a, b)->bandwidth_gbps, 6.7, 0.05);
    EXPECT_DOUBLE_EQ(federation->link(b, c)->bandwidth_gbps, 6);
    EXPECT_NEAR(federation->link(a, c)->bandwidth_gbps, 3.8, 0.05);
    EXPECT_EQ(federation->link(a, c)->rtt_ms, 140);
}

// The best of all simple paths, found by walking all of them.
class EveryPath {
  public:
    explicit EveryPath(const Federation &federation) : federation_(federation) {
        for (const auto &link : federation.links())
            links_[index(link.from)][index(link.to)] = link;
    }

    std::optional<Link> best(SiteId from, SiteId to) {
        if (const auto &link = links_[index(from)][index(to)]) {
            const auto [width, rtt] = hop(*link);
            return Link{from, to, width, rtt};
        }
        best_.reset();
        path_ = {from};
        if (federation_.site(from).routable && federation_.site(to).routable)
            walk(to, std::numeric_limits<double>::infinity(), 0);
        return best_;
    }

  private:
    static std::size_t index(SiteId id) { return static_cast<std::size_t>(id.value); }

    [[nodiscard]] std::pair<double, double> hop(const Link &link) const {
        double width = link.bandwidth_gbps;
        if (const double up = federation_.site(link.from).uplink_gbps; up > 0) width = std::min(width, up);
        if (const double down = federation_.site(link.to).downlink_gbps; down > 0)
            width = std::min(width, down);
        return {width, link.rtt_ms};
    }

    void walk(SiteId to, double width, double rtt) {
        const auto here = path_.back();
        if (here == to) {
            if (!best_ || width > best_->bandwidth_gbps ||
                (width == best_->bandwidth_gbps && rtt < best_->rtt_ms))
                best_ = Link{path_.front(), to, width, rtt};
            return;
        }
        if (path_.size() > 1 && !(federation_.site(here).transit && federation_.site(here).routable)) return;
        for (const auto &link : links_[index(here)]) {
            if (!link || std::find(path_.begin(), path_.end(), link->to) != path_.end()) continue;
            const auto [hop_width, hop_rtt] = hop(*link);
            path_.push_back(link->to);
            walk(to, std::min(width, hop_width), rtt + hop_rtt);
            path_.pop_back();
        }
    }

    const Federation &federation_;
    std::array<std::array<std::optional<Link>, 7>, 7> links_;
    std::vector<SiteId> path_;
    std::optional<Link> best_;
};

Federation random_federation(std::mt19937 &chance) {
    const auto draw = [&](int n) { return static_cast<int>(chance() % static_cast<unsigned>(n)); };
    std::vector<Site> sites;
    std::vector<Link> links;
    const int count = 3 + draw(5);
    const bool gateways = draw(2) == 0;
    for (int i = 0; i < count; ++i) {
        Site site = named(std::string(1, static_cast<char>('a' + i)), draw(3) > 0);
        site.routable = draw(8) > 0;
        if (gateways && draw(2) == 0) site.uplink_gbps = 1 + draw(5);
        if (gateways && draw(2) == 0) site.downlink_gbps = 1 + draw(5);
        sites.push_back(site);
    }
    const int density = 1 + draw(5);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < count; ++j)
            if (i != j && draw(6) < density)
                links.push_back({SiteId{i}, SiteId{j}, 1.0 + draw(6), 1.0 * draw(6)});
    return *Federation::make(sites, links);
}

// The links that a flow crosses lead from its one end to the other.
void expect_a_chain(const Federation &federation, SiteId from, SiteId to) {
    const auto own = federation.site(from).name + " -> " + federation.site(to).name;
    std::string here = federation.site(from).name;
    const auto names = crossed(federation, from, to);
    ASSERT_EQ(names.front(), own);
    for (std::size_t i = 1; i < names.size(); ++i) {
        if (names[i].find(" -> ") == std::string::npos) continue;
        EXPECT_EQ(names[i].substr(0, 1), here);
        here = names[i].substr(names[i].size() - 1);
    }
    if (here != federation.site(from).name) {
        EXPECT_EQ(here, federation.site(to).name);
    }
}

TEST(Routes, AreTheBestOfAllSimplePathsInRandomFederations) {
    std::mt19937 chance(20260301);
    int routes = 0;
    for (int run = 0; run < 600; ++run) {
        const auto federation = random_federation(chance);
        EveryPath paths(federation);
        for (const auto &from : federation.sites()) {
            for (const auto &to : federation.sites()) {
                if (from.id == to.id) continue;
                const auto link = federation.link(from.id, to.id);
                ASSERT_EQ(link, paths.best(from.id, to.id)) << run << ": " << from.name << to.name;
                ASSERT_EQ(federation.resources(from.id, to.id).empty(), !link);
                if (!link) continue;
                expect_a_chain(federation, from.id, to.id);
                routes += federation.resources(from.id, to.id).size() > 2;
            }
        }
    }
    EXPECT_GT(routes, 1000);
}

// 32 hubs all linked to each other, and 31 leaves at each: every pair of leaves has a route of at most 3
// links.
TEST(Routes, AThousandSitesBehindHubsHaveAllTheirRoutes) {
    std::vector<Site> sites;
    std::vector<Link> links;
    for (int i = 0; i < 1024; ++i)
        sites.push_back(named("site" + std::to_string(i), i < 32));
    const auto both = [&](int i, int j, double gbps, double rtt) {
        links.push_back({SiteId{i}, SiteId{j}, gbps, rtt});
        links.push_back({SiteId{j}, SiteId{i}, gbps, rtt});
    };
    for (int i = 0; i < 32; ++i)
        for (int j = 0; j < i; ++j)
            both(i, j, 100, 10);
    for (int i = 32; i < 1024; ++i)
        both(i, i % 32, 1 + i % 5, 2);
    const auto federation = Federation::make(sites, links);
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->link(SiteId{32}, SiteId{64}), (Link{SiteId{32}, SiteId{64}, 3, 4}));
    EXPECT_EQ(federation->link(SiteId{34}, SiteId{1023}), (Link{SiteId{34}, SiteId{1023}, 4, 14}));
    EXPECT_EQ(federation->resources(SiteId{34}, SiteId{1023}).size(), 4u);
}

} // namespace
} // namespace spider::federation
