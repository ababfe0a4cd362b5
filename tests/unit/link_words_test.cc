// SPDX-License-Identifier: GPL-3.0-or-later
// Which links a plan says it rests on, and what it says of them.
#include "plan/explain.h"
#include "plan/link_words.h"
#include "plan/planner.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <set>

namespace spider::plan {
namespace {

constexpr Seconds today = 1'800'000'000;

struct Known {
    double gbps = 0;
    federation::Origin origin;
};

// s1, s2, s3, all alike; each link as `of` says.
template <class Of>
Federation measured(Of of) {
    std::vector<Link> links;
    federation::Network network;
    for (int from = 0; from < 3; ++from)
        for (int to = 0; to < 3; ++to) {
            if (from == to) continue;
            const Known link = of(from, to);
            links.push_back({link.origin.from, link.origin.to, link.gbps, 20});
            network.origins.push_back(link.origin);
        }
    return *Federation::make({site("s1", 1, 4), site("s2", 1, 4), site("s3", 1, 4)}, links, network);
}

Known link(int from, int to, double gbps, double usual) {
    return {gbps,
            {.from = SiteId{from},
             .to = SiteId{to},
             .source = "probe",
             .measured_at = today - 60 * (1 + from + to),
             .usual_gbps = usual}};
}

JobSpec over_two_sites() {
    auto spec = job(llama_13b());
    spec.home = "s1";
    spec.tp = 4, spec.pp = 2, spec.dp = 1;
    return spec;
}

std::set<std::string> names(const Plan &plan, bool used) {
    std::set<std::string> found;
    for (const auto &one : plan.links)
        if (one.used == used) found.insert(one.from + " -> " + one.to);
    return found;
}

TEST(PlanLinks, ThoseThatItSendsOnWithTheirSourceAndAge) {
    const auto federation = measured([](int a, int b) { return link(a, b, a + b == 1 ? 10 : 1, 10); });
    const auto plan = make_plan(federation, over_two_sites());
    ASSERT_TRUE(plan && plan->outcome == Outcome::planned) << plan.error().what;
    EXPECT_EQ(names(*plan, true), (std::set<std::string>{"s1 -> s2", "s2 -> s1"}));
    for (const auto &one : plan->links) {
        if (!one.used) continue;
        EXPECT_EQ(one.gbps, 10);
        EXPECT_EQ(one.source, "probe");
        EXPECT_EQ(one.measured_at, today - 120);
    }
    EXPECT_EQ(link_ages(*plan, today), "links measured 2 min ago");
}

TEST(PlanLinks, ThePlanGoesRoundADegradedLinkAndSaysSo) {
    const auto federation = measured([](int a, int b) { return link(a, b, a + b == 1 ? 0.1 : 9, 10); });
    const auto plan = make_plan(federation, over_two_sites());
    ASSERT_TRUE(plan && plan->outcome == Outcome::planned) << plan.error().what;
    EXPECT_EQ(names(*plan, true), (std::set<std::string>{"s1 -> s3", "s3 -> s1"}));
    EXPECT_EQ(names(*plan, false), (std::set<std::string>{"s1 -> s2", "s2 -> s1"}));
    const auto text = explanation(*plan, *course_of(*plan));
    EXPECT_NE(
        text.find("carry much less than usual:\n  s1 -> s2  0.1 Gbit/s, 20 ms, usually 10 Gbit/s (probe, "
                  "measured "),
        std::string::npos)
        << text;
    const auto read = model::plan_from_json(model::to_json(*plan));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->links, plan->links);
}

TEST(PlanLinks, PinnedOnesHaveNoAge) {
    auto pinned = [](int a, int b) {
        auto one = link(a, b, 10, 0);
        one.origin.source = "pinned", one.origin.measured_at = 0;
        return one;
    };
    const auto plan = make_plan(measured(pinned), over_two_sites());
    ASSERT_TRUE(plan && plan->outcome == Outcome::planned) << plan.error().what;
    EXPECT_EQ(link_ages(*plan, today), "its links are pinned");
    EXPECT_NE(link_lines(*plan).find("10 Gbit/s, 20 ms (pinned)"), std::string::npos) << link_lines(*plan);
}

TEST(PlanLinks, ARouteIsAsOldAsTheOldestOfItsLinks) {
    std::vector<Site> sites{site("s1", 1, 4), site("s2", 1, 4), site("s3", 1, 4)};
    sites[1].transit = true;
    federation::Network network;
    std::vector<Link> links;
    for (const auto &[from, to] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 2), std::pair(2, 1)}) {
        links.push_back({SiteId{from}, SiteId{to}, 10, 20});
        network.origins.push_back(link(from, to, 10, 10).origin);
    }
    const auto federation = Federation::make(sites, links, network);
    ASSERT_TRUE(federation);
    ASSERT_NE(federation->origin(SiteId{0}, SiteId{2}), nullptr);
    EXPECT_EQ(federation->origin(SiteId{0}, SiteId{2})->measured_at, today - 240);
    EXPECT_EQ(federation->origin(SiteId{0}, SiteId{1})->measured_at, today - 120);
    EXPECT_EQ(federation->origin(SiteId{0}, SiteId{0}), nullptr);
}

TEST(PlanLinks, TheLatestOriginOfALinkCounts) {
    federation::Network network;
    for (const double usual : {1, 2, 3})
        network.origins.push_back(link(0, 1, 10, usual).origin);
    const auto federation =
        Federation::make({site("s1", 1, 4), site("s2", 1, 4)}, {{SiteId{0}, SiteId{1}, 10, 20}}, network);
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->network().origins.size(), 1u);
    EXPECT_EQ(federation->origin(SiteId{0}, SiteId{1})->usual_gbps, 3);
}

} // namespace
} // namespace spider::plan
