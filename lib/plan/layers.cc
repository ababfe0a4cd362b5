// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/layers.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>

namespace spider::plan {

std::vector<int> fill(std::span<const Vessel> vessels, int layers) {
    std::int64_t room = 0;
    for (const auto &vessel : vessels) {
        if (vessel.most < 1) return {};
        room += vessel.most;
    }
    if (room < layers || static_cast<std::size_t>(std::max(layers, 0)) < vessels.size()) return {};

    // The vessel that is least full after its next layer; of equal ones the first. Greedy is optimal: any
    // other choice leaves a vessel at least as full.
    using Next = std::pair<double, std::size_t>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    std::vector<int> filled(vessels.size(), 1);
    const auto offer = [&](std::size_t i) {
        if (filled[i] < vessels[i].most) next.emplace(vessels[i].base + vessels[i].each * (filled[i] + 1), i);
    };
    for (std::size_t i = 0; i < vessels.size(); ++i)
        offer(i);
    for (auto left = layers - static_cast<int>(vessels.size()); left > 0; --left) {
        const auto i = next.top().second;
        next.pop();
        ++filled[i];
        offer(i);
    }
    return filled;
}

} // namespace spider::plan
