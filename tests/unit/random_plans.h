// SPDX-License-Identifier: GPL-3.0-or-later
// Plans as wild as the model of a plan allows: any slot on any node of any site, any split of the layers.
#pragma once

#include "model/plan.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace spider {

enum class Depths { usual, deeper }; // P - i; or any that do not fall below

class RandomPlans {
  public:
    explicit RandomPlans(unsigned seed) : chance_(seed) {}

    int between(int least, int most) { return std::uniform_int_distribution<int>(least, most)(chance_); }

    Plan plan(Depths depths, bool even = false) {
        Plan plan{.outcome = Outcome::planned, .reason = {}};
        plan.tp = 1 << between(0, 3), plan.pp = between(1, 8), plan.dp = between(1, 4);
        plan.micro_batch = between(1, 4), plan.micro_batches = between(1, 24),
        plan.sequence = 1024 * between(1, 8);
        plan.recompute = static_cast<Recompute>(between(0, 2));
        deal_layers(plan, even);
        set_depths(plan, depths);
        deal_slots(plan);
        return plan;
    }

  private:
    void deal_layers(Plan &plan, bool even) {
        const int each = between(1, 6);
        for (int i = 0, first = 0; i < plan.pp; ++i) {
            const int count = even ? each : between(1, 9);
            plan.stages.push_back(
                {.first_layer = first, .last_layer = first + count - 1, .ring = {}, .faster = {}});
            first += count;
        }
    }

    void set_depths(Plan &plan, Depths depths) {
        int below = 0;
        for (int i = plan.pp - 1; i >= 0; --i) {
            const int more = depths == Depths::usual || i == plan.pp - 1 ? 1 : between(1, 4);
            below = std::min(below + more, plan.micro_batches);
            plan.stages[static_cast<std::size_t>(i)].depth = below;
        }
    }

    void deal_slots(Plan &plan) {
        const int sites = between(1, 4);
        std::vector<std::vector<Slot>> at(static_cast<std::size_t>(sites));
        for (int i = 0; i < plan.pp; ++i)
            for (int d = 0; d < plan.dp; ++d)
                at[static_cast<std::size_t>(between(0, sites - 1))].push_back({i, d});
        for (int s = 0; s < sites; ++s) {
            auto &slots = at[static_cast<std::size_t>(s)];
            if (slots.empty()) continue;
            Part part{"s" + std::to_string(s + 1), "h100", {}};
            for (std::size_t next = 0; next < slots.size();) {
                const auto count =
                    std::min<std::size_t>(static_cast<std::size_t>(between(1, 4)), slots.size() - next);
                const auto begin = slots.begin() + static_cast<std::ptrdiff_t>(next);
                part.nodes.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
                next += count;
            }
            plan.parts.push_back(std::move(part));
        }
    }

    std::mt19937 chance_;
};

} // namespace spider
