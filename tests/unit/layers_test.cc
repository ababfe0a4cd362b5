// SPDX-License-Identifier: GPL-3.0-or-later
// Water-filling against every split.
#include "plan/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace spider::plan {
namespace {

// Every way to deal `left` layers to the vessels from `at` on.
double brute_force(const std::vector<Vessel> &vessels, std::size_t at, int left) {
    constexpr double never = 1e300;
    if (at == vessels.size()) return left == 0 ? 0 : never;
    double best = never;
    for (int n = 1; n <= std::min(left, vessels[at].most); ++n)
        best = std::min(
            best, std::max(vessels[at].base + n * vessels[at].each, brute_force(vessels, at + 1, left - n)));
    return best;
}

TEST(Layers, WaterFillingIsAsGoodAsEverySplit) {
    std::mt19937 chance(9);
    int full = 0;
    for (int round = 0; round < 300; ++round) {
        const auto whole = [&](unsigned below) { return static_cast<int>(chance() % below); };
        std::vector<Vessel> vessels(1 + chance() % 4);
        for (auto &vessel : vessels)
            vessel = {1.0 + whole(5), 1.0 * whole(7), 1 + whole(8)};
        const int layers = 1 + static_cast<int>(chance() % 16);
        const auto filled = fill(vessels, layers);
        const double best = brute_force(vessels, 0, layers);
        EXPECT_EQ(filled.empty(), best > 1e299);
        if (filled.empty()) continue;
        EXPECT_EQ(std::accumulate(filled.begin(), filled.end(), 0), layers);
        double fullest = 0;
        for (std::size_t i = 0; i < vessels.size(); ++i) {
            EXPECT_GE(filled[i], 1);
            EXPECT_LE(filled[i], vessels[i].most);
            fullest = std::max(fullest, vessels[i].base + filled[i] * vessels[i].each);
        }
        EXPECT_DOUBLE_EQ(fullest, best);
        ++full;
    }
    EXPECT_GT(full, 100);
}

} // namespace
} // namespace spider::plan
