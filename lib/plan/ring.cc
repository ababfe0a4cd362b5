// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/ring.h"

#include <algorithm>

namespace spider::plan {

namespace {

void lengthen(const Problem &problem, RingCost &cost, int from, int to) {
    const auto &hop = problem.hop(from, to);
    cost.seconds_per_byte = std::max(cost.seconds_per_byte, hop.seconds_per_byte);
    cost.latency = std::max(cost.latency, hop.latency);
}

RingCost measured(const Problem &problem, std::span<const int> order) {
    RingCost cost;
    for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i)
        lengthen(problem, cost, order[i], order[i + 1 < order.size() ? i + 1 : 0]);
    return cost;
}

RingCost measured_backwards(const Problem &problem, std::span<const int> order) {
    RingCost cost;
    for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i)
        lengthen(problem, cost, order[i + 1 < order.size() ? i + 1 : 0], order[i]);
    return cost;
}

RingCost cheaper(const RingCost &a, const RingCost &b, double bytes, std::size_t sites) {
    return b.seconds(bytes, sites) < a.seconds(bytes, sites) ? b : a;
}

void nearest_neighbour(const Problem &problem, std::span<int> order, double bytes_per_step) {
    for (std::size_t i = 1; i < order.size(); ++i) {
        std::size_t next = i;
        Seconds least = never;
        const auto *hops = &problem.hop(order[i - 1], 0);
        for (std::size_t j = i; j < order.size(); ++j) {
            const auto &hop = hops[order[j]];
            const auto cost = bytes_per_step * hop.seconds_per_byte + hop.latency;
            if (cost < least) least = cost, next = j;
        }
        std::swap(order[i], order[next]);
    }
}

// Reverses stretches while the slowest link gets faster.
void two_opt(const Problem &problem, Ring &ring, double bytes) {
    const auto sites = ring.order.size();
    for (bool better = true; better;) {
        better = false;
        for (std::size_t i = 1; i + 1 < sites; ++i) {
            for (std::size_t j = i + 1; j < sites; ++j) {
                const auto first = ring.order.begin() + static_cast<std::ptrdiff_t>(i),
                           last = ring.order.begin() + static_cast<std::ptrdiff_t>(j) + 1;
                std::reverse(first, last);
                const auto cost = measured(problem, ring.order);
                if (cost.seconds(bytes, sites) < ring.cost.seconds(bytes, sites))
                    ring.cost = cost, better = true;
                else
                    std::reverse(first, last);
            }
        }
    }
}

// All orders from the first site on, cut where a part already costs as much as the best ring.
class ExactOrder {
  public:
    ExactOrder(const Problem &problem, Ring &best, double bytes)
        : problem_(problem), best_(best), bytes_(bytes), order_(best.order) {}
    void run() { extend(1, {}); }

  private:
    void extend(std::size_t at, const RingCost &cost) {
        const auto sites = order_.size();
        for (std::size_t i = at; i < sites; ++i) {
            std::swap(order_[at], order_[i]);
            auto longer = cost;
            lengthen(problem_, longer, order_[at - 1], order_[at]);
            if (at + 1 == sites) lengthen(problem_, longer, order_[at], order_[0]);
            if (longer.seconds(bytes_, sites) < best_.cost.seconds(bytes_, sites)) {
                if (at + 1 == sites)
                    best_ = {order_, longer};
                else
                    extend(at + 1, longer);
            }
            std::swap(order_[at], order_[i]);
        }
    }

    const Problem &problem_;
    Ring &best_;
    double bytes_;
    std::vector<int> order_;
};

} // namespace

Seconds ring_seconds_over(std::span<const RingLink> links, double bytes) {
    const auto sites = links.size();
    if (sites < 2) return 0;
    const auto part = bytes / static_cast<double>(sites);
    std::vector<Seconds> sent(sites, 0), before;
    for (std::size_t step = 0; step < 2 * (sites - 1); ++step) {
        before = sent;
        for (std::size_t i = 0; i < sites; ++i) {
            const auto previous = (i + sites - 1) % sites;
            const auto came = step == 0 ? 0 : before[previous] + links[previous].latency;
            sent[i] = std::max(before[i], came) + part * links[i].seconds_per_byte;
        }
    }
    Seconds last = 0;
    for (std::size_t i = 0; i < sites; ++i)
        last = std::max(last, sent[i] + links[i].latency);
    return last;
}

Ring best_ring(const Problem &problem, std::span<const int> sites, double bytes) {
    Ring ring{{sites.begin(), sites.end()}, {}};
    const auto count = ring.order.size();
    if (count < 2) return ring;
    nearest_neighbour(problem, ring.order, bytes / static_cast<double>(count));
    ring.cost = measured(problem, ring.order);
    if (count <= 64) two_opt(problem, ring, bytes);
    if (count <= exact_ring) ExactOrder(problem, ring, bytes).run();
    return ring;
}

RingCost good_ring(const Problem &problem, std::span<int> sites, double bytes) {
    const auto count = sites.size();
    if (count > 4) {
        nearest_neighbour(problem, sites, bytes / static_cast<double>(count));
        const auto cost = cheaper(measured(problem, sites), measured_backwards(problem, sites), bytes, count);
        return cost.latency < no_way ? cost : best_ring(problem, sites, bytes).cost; // a graph with holes
    }
    auto best = cheaper(measured(problem, sites), measured_backwards(problem, sites), bytes, count);
    for (std::size_t i = 2; count == 4 && i < 4; ++i) { // three orders of four, each in two directions
        std::swap(sites[1], sites[i]);
        best = cheaper(best, measured(problem, sites), bytes, count);
        best = cheaper(best, measured_backwards(problem, sites), bytes, count);
    }
    return best;
}

} // namespace spider::plan
