// SPDX-License-Identifier: GPL-3.0-or-later
// Max-min shares, against bisection on the definition.
#include "federation/sharing.h"

#include "federation/federation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace spider::federation {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Flows that own their lists.
struct Case {
    std::vector<double> capacities;
    std::vector<std::vector<int>> crossed;
    std::vector<double> limits;
    std::vector<int> counts;

    [[nodiscard]] std::vector<double> shares() const {
        std::vector<Flow> flows;
        for (std::size_t i = 0; i < crossed.size(); ++i)
            flows.push_back(
                {crossed[i], limits.empty() ? infinity : limits[i], counts.empty() ? 1 : counts[i]});
        return max_min(capacities, flows);
    }
};

using Shares = std::vector<double>;

TEST(MaxMin, FlowsOnOneLinkShareItEqually) {
    EXPECT_EQ((Case{{12}, {{0}, {0}, {0}}, {}, {}}.shares()), (Shares{4, 4, 4}));
}

// The textbook's chain: one flow over both links, one on each. Bertsekas and Gallager, Data Networks, 6.5.2.
TEST(MaxMin, WhatALongFlowCannotUseGoesToTheShortOne) {
    EXPECT_EQ((Case{{2, 10}, {{0, 1}, {0}, {1}}, {}, {}}.shares()), (Shares{1, 1, 9}));
}

TEST(MaxMin, WhatALimitedFlowLeavesGoesToTheOthers) {
    EXPECT_EQ((Case{{12}, {{0}, {0}, {0}}, {2, infinity, 7}, {}}.shares()), (Shares{2, 5, 5}));
}

TEST(MaxMin, ACountIsSoManyFlows) {
    EXPECT_EQ((Case{{12, 2}, {{0}, {0, 1}}, {}, {2, 4}}.shares()), (Shares{5, 0.5}));
}

TEST(MaxMin, AFlowThatCrossesNothingGetsItsLimit) {
    EXPECT_EQ((Case{{1}, {{}, {}, {0}}, {3, infinity, infinity}, {}}.shares()), (Shares{3, infinity, 1}));
    EXPECT_TRUE((Case{{}, {}, {}, {}}.shares().empty()));
}

bool fits(const Case &it, const Shares &shares) {
    std::vector<double> used(it.capacities.size());
    for (std::size_t i = 0; i < shares.size(); ++i)
        for (const int resource : it.crossed[i])
            used[static_cast<std::size_t>(resource)] += shares[i] * it.counts[i];
    for (std::size_t i = 0; i < used.size(); ++i)
        if (used[i] > it.capacities[i]) return false;
    for (std::size_t i = 0; i < shares.size(); ++i)
        if (shares[i] > it.limits[i]) return false;
    return true;
}

// By the definition: raise all open flows together as far as it fits; then close those that cannot be raised
// alone. Knows nothing of full resources.
Shares by_bisection(const Case &it) {
    Shares shares(it.crossed.size());
    std::vector<bool> closed(shares.size());
    const auto raised = [&](double level) {
        auto higher = shares;
        for (std::size_t i = 0; i < higher.size(); ++i)
            if (!closed[i]) higher[i] = level;
        return higher;
    };
    while (std::find(closed.begin(), closed.end(), false) != closed.end()) {
        double low = 0, high = 1000;
        for (int step = 0; step < 60; ++step) {
            const double middle = (low + high) / 2;
            (fits(it, raised(middle)) ? low : high) = middle;
        }
        shares = raised(low);
        const auto before = shares;
        for (std::size_t i = 0; i < shares.size(); ++i) {
            auto alone = before;
            alone[i] += 1e-7;
            if (!fits(it, alone)) closed[i] = true;
        }
    }
    return shares;
}

Case random_case(std::mt19937 &chance) {
    const auto draw = [&](int n) { return static_cast<int>(chance() % static_cast<unsigned>(n)); };
    Case it;
    const int resources = 1 + draw(8), flows = 1 + draw(12);
    for (int i = 0; i < resources; ++i)
        it.capacities.push_back(1 + draw(20));
    for (int i = 0; i < flows; ++i) {
        std::vector<int> crossed{draw(resources)};
        for (int j = 0; j < resources; ++j)
            if (j != crossed[0] && draw(4) == 0) crossed.push_back(j);
        it.crossed.push_back(crossed);
        it.limits.push_back(draw(3) == 0 ? 0.25 * draw(20) : infinity);
        it.counts.push_back(1 + draw(4));
    }
    return it;
}

TEST(MaxMin, AgreesWithBisectionOnTheDefinition) {
    std::mt19937 chance(7);
    for (int run = 0; run < 1000; ++run) {
        const auto it = random_case(chance);
        const auto shares = it.shares(), expected = by_bisection(it);
        for (std::size_t i = 0; i < shares.size(); ++i)
            ASSERT_NEAR(shares[i], expected[i], 1e-6) << "run " << run << " flow " << i;
    }
}

// The certificate of max-min: each flow is at its limit or has the greatest share of something full.
TEST(MaxMin, EveryFlowHasABottleneckInLargeCases) {
    std::mt19937 chance(11);
    for (int run = 0; run < 5; ++run) {
        const auto draw = [&](int n) { return static_cast<int>(chance() % static_cast<unsigned>(n)); };
        Case it;
        for (int i = 0; i < 300; ++i)
            it.capacities.push_back(1 + 0.001 * draw(100'000));
        for (int i = 0; i < 1000; ++i) {
            it.crossed.push_back({draw(100), 100 + draw(100), 200 + draw(100)});
            it.limits.push_back(draw(5) == 0 ? 0.1 + 0.01 * draw(100) : infinity);
            it.counts.push_back(1 + draw(8));
        }
        const auto shares = it.shares();
        std::vector<double> used(300), greatest(300);
        for (std::size_t i = 0; i < shares.size(); ++i) {
            for (const int resource : it.crossed[i]) {
                const auto at = static_cast<std::size_t>(resource);
                used[at] += shares[i] * it.counts[i];
                greatest[at] = std::max(greatest[at], shares[i]);
            }
        }
        for (std::size_t i = 0; i < 300; ++i)
            EXPECT_LE(used[i], it.capacities[i] * (1 + 1e-9));
        for (std::size_t i = 0; i < shares.size(); ++i)
            EXPECT_TRUE(shares[i] == it.limits[i] ||
                        std::any_of(it.crossed[i].begin(), it.crossed[i].end(),
                                    [&](int resource) {
                                        const auto at = static_cast<std::size_t>(resource);
                                        return used[at] > it.capacities[at] * (1 - 1e-9) &&
                                               shares[i] > greatest[at] * (1 - 1e-9);
                                    }))
                << i;
    }
}

// An uplink of 6 Gbit/s: two flows to b share what the one to c, on a link of 1, leaves.
TEST(Share, FlowsBetweenSitesShareGateways) {
    constexpr SiteId a{0}, b{1}, c{2};
    Site one{.name = "a"};
    one.uplink_gbps = 6;
    const auto federation =
        Federation::make({one, {.name = "b"}, {.name = "c"}}, {{a, b, 10, 1}, {a, c, 1, 1}, {b, a, 3, 1}});
    ASSERT_TRUE(federation);
    const std::vector<Traffic> traffic{{.from = a, .to = b, .count = 2},
                                       {.from = a, .to = c},
                                       {.from = b, .to = a, .limit = 50e6},
                                       {.from = c, .to = b},
                                       {.from = c, .to = c}};
    const auto shares = share(*federation, traffic);
    EXPECT_DOUBLE_EQ(shares[0], 2.5e9 / 8);
    EXPECT_DOUBLE_EQ(shares[1], 1e9 / 8);
    EXPECT_DOUBLE_EQ(shares[2], 50e6);
    EXPECT_EQ(shares[3], 0);
    EXPECT_EQ(shares[4], infinity);
}

} // namespace
} // namespace spider::federation
