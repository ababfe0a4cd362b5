// SPDX-License-Identifier: GPL-3.0-or-later
// The inter-site part of a stage's all-reduce: a ring over its sites, in 2(k-1) steps of a k-th part each
// (Patarasuk and Yuan 2009). No ring takes longer than 2(k-1)/k * G / beta_min + 2(k-1) * a_max; searches go
// by that, and by the order of sites that makes it least. What it takes is ring_seconds_over().
#pragma once

#include "plan/problem.h"

#include <span>
#include <vector>

namespace spider::plan {

struct RingCost {
    double seconds_per_byte = 0; // of the slowest link, alone on it
    Seconds latency = 0;         // of the longest link
    // A ring of `sites` that reduces `bytes`.
    [[nodiscard]] Seconds seconds(double bytes, std::size_t sites) const {
        const auto k = static_cast<double>(sites);
        return sites < 2 ? 0 : 2 * (k - 1) * (bytes / k * seconds_per_byte + latency);
    }
};

// A link of the ring, as this ring gets it.
struct RingLink {
    double seconds_per_byte = 0;
    Seconds latency = 0;
};

// When the last site has the sum of `bytes`, after all begin at once. links[i]: from the i-th site to the
// next. A site sends its next part on as soon as that has come and its link is free: step s is sent over link
// i by
//   f(i, s) = bytes / k * c(i) + max(f(i, s-1), f(i-1, s-1) + a(i-1)),
// so that a part waits for the slowest link once, not at every step.
Seconds ring_seconds_over(std::span<const RingLink> links, double bytes);

struct Ring {
    std::vector<int> order; // each sends to the next, the last to the first
    RingCost cost;          // `no_way` or more where no order has links in both directions all around
};

// `sites` without repetition. Exact up to `exact_ring` sites, else nearest neighbour and 2-opt.
constexpr std::size_t exact_ring = 9;
Ring best_ring(const Problem &problem, std::span<const int> sites, double bytes);

// The cost alone, quickly: exact up to 4 sites, else nearest neighbour in both directions. Reorders `sites`.
RingCost good_ring(const Problem &problem, std::span<int> sites, double bytes);

} // namespace spider::plan
