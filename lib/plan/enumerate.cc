// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/enumerate.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace spider::plan {

namespace {

constexpr std::size_t all_subsets_up_to = 8; // sites: 255 subsets
constexpr std::size_t all_orders_up_to = 3;  // sites in a subset, beside a fixed home; else nearest neighbour
constexpr int most_tp = 64;

bool better(Goal goal, const Candidate &a, const Priced &x, const Found &b) {
    if (goal == Goal::fastest) return x.iteration.seconds < b.priced.iteration.seconds;
    return std::tuple(a.gpus(), x.iteration.seconds) <
           std::tuple(b.candidate.gpus(), b.priced.iteration.seconds);
}

double speed(const Pool &pool) { return pool.gpu.peak_flops * pool.gpu.efficiency; }

// `stages` over the runs: one each, the rest to where a further stage has the most speed left for it.
void deal(Candidate &candidate, const std::vector<int> &most, int stages) {
    for (auto &run : candidate.runs)
        run.stages = 1;
    for (auto left = stages - static_cast<int>(candidate.runs.size()); left > 0; --left) {
        std::size_t best = 0;
        double share = -1;
        for (std::size_t i = 0; i < most.size(); ++i) {
            const auto &run = candidate.runs[i];
            const double own = most[i] * speed(*run.pool) / (run.stages + 1);
            if (run.stages < most[i] && own > share) best = i, share = own;
        }
        ++candidate.runs[best].stages;
    }
}

} // namespace

Enumeration::Enumeration(const Federation &federation, const JobSpec &spec, const std::vector<Pool> &pools,
                         int home, Goal goal, std::int64_t max_evaluations)
    : federation_(federation), spec_(spec), pools_(pools), home_(home), goal_(goal),
      max_evaluations_(max_evaluations), evaluator_(federation, spec) {}

// Sizes that divide the heads and some node of every site; powers of two unless the user says otherwise.
std::vector<int> Enumeration::tensor_sizes(const Order &order) const {
    std::vector<int> sizes;
    const auto &model = spec_.model;
    const auto fits = [&](int tp) {
        return model.heads % tp == 0 && model.intermediate % tp == 0 &&
               (model.kv_heads % tp == 0 || tp % model.kv_heads == 0) &&
               std::all_of(order.begin(), order.end(),
                           [&](const Pool *pool) { return slots_in(*pool, tp) > 0; });
    };
    if (spec_.tp) return fits(*spec_.tp) ? std::vector{*spec_.tp} : sizes;
    for (int tp = 1; tp <= most_tp; tp *= 2)
        if (fits(tp)) sizes.push_back(tp);
    return sizes;
}

// The batch splits evenly over D pipelines.
std::vector<int> Enumeration::data_sizes(int most) const {
    const int batches = spec_.global_batch / spec_.micro_batch;
    std::vector<int> sizes;
    if (spec_.dp) return *spec_.dp <= most ? std::vector{*spec_.dp} : sizes;
    for (int dp = 1; dp <= std::min(most, batches); ++dp)
        if (batches % dp == 0) sizes.push_back(dp);
    return sizes;
}

// All small counts, then steps of a third up to the most.
std::vector<int> Enumeration::stage_counts(int least, int most) const {
    std::vector<int> counts;
    most = std::min(most, spec_.model.layers);
    if (spec_.pp) return *spec_.pp >= least && *spec_.pp <= most ? std::vector{*spec_.pp} : counts;
    for (int pp = least; pp < most; pp += goal_ == Goal::fewest ? 1 : std::max(1, (pp - least) / 3))
        counts.push_back(pp);
    if (least <= most) counts.push_back(most);
    return counts;
}

void Enumeration::try_order(const Order &order, std::optional<Found> &best) {
    for (const int tp : tensor_sizes(order)) {
        std::vector<int> slots;
        for (const auto *pool : order)
            slots.push_back(slots_in(*pool, tp));
        for (const int dp : data_sizes(*std::min_element(slots.begin(), slots.end()))) {
            Candidate candidate{.tp = tp, .dp = dp};
            std::vector<int> most;
            for (std::size_t i = 0; i < order.size(); ++i) {
                candidate.runs.push_back({order[i], 1});
                most.push_back(std::min(slots[i] / dp, spec_.model.layers));
            }
            const int all = std::accumulate(most.begin(), most.end(), 0);
            for (const int pp : stage_counts(static_cast<int>(order.size()), all)) {
                if (evaluations >= max_evaluations_) return;
                deal(candidate, most, pp);
                try_candidate(candidate, best);
            }
        }
    }
}

void Enumeration::try_candidate(const Candidate &candidate, std::optional<Found> &best) {
    if (best && goal_ == Goal::fastest && evaluator_.floor(candidate) >= best->priced.iteration.seconds)
        return;
    if (best && goal_ == Goal::fewest && candidate.gpus() > best->candidate.gpus()) return;
    ++evaluations;
    auto priced = evaluator_.price(candidate);
    if (!priced && goal_ == Goal::fewest) keep_nearest(candidate);
    if (priced && (!best || better(goal_, candidate, *priced, *best)))
        best = Found{candidate, std::move(*priced)};
}

void Enumeration::keep_nearest(const Candidate &candidate) {
    for (auto &miss : evaluator_.misses(candidate)) {
        const auto [known, first] = misses.try_emplace(miss.gpu, miss);
        if (!first && miss.needed / miss.has < known->second.needed / known->second.has)
            known->second = std::move(miss);
    }
}

void Enumeration::alone(std::size_t pool) { try_order({&pools_[pool]}, single); }

bool Enumeration::linked(const Order &order) const {
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
        if (!evaluator_.linked(*order[i], *order[i + 1])) return false;
    return std::all_of(order.begin(), order.end(),
                       [&](const Pool *pool) { return federation_.site(pool->site).routable; });
}

// Nearest neighbour: from the last site over the widest link.
Enumeration::Order Enumeration::chain(std::size_t start, const std::vector<std::size_t> &among) const {
    Order order{&pools_[start]};
    std::vector<bool> used(pools_.size(), false);
    used[start] = true;
    for (;;) {
        std::optional<std::size_t> next;
        double widest = 0;
        for (const auto i : among) {
            if (used[i] || !evaluator_.linked(*order.back(), pools_[i])) continue;
            const auto there = federation_.link(order.back()->site, pools_[i].site);
            const auto back = federation_.link(pools_[i].site, order.back()->site);
            const double width = std::min(there->bandwidth_gbps, back->bandwidth_gbps);
            if (federation_.site(pools_[i].site).routable && width > widest) next = i, widest = width;
        }
        if (!next) return order;
        used[*next] = true;
        order.push_back(&pools_[*next]);
    }
}

// The home site first.
Enumeration::Order Enumeration::first_order(const std::vector<std::size_t> &pools) const {
    Order order;
    if (home_ >= 0) order.push_back(&pools_[static_cast<std::size_t>(home_)]);
    for (const auto i : pools)
        if (static_cast<int>(i) != home_) order.push_back(&pools_[i]);
    return order;
}

void Enumeration::permute(Order order, std::size_t fixed) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(fixed);
    std::sort(first, order.end()); // addresses inside one vector: the order of `pools`
    do {
        if (linked(order)) try_order(order, several);
    } while (std::next_permutation(first, order.end()));
}

void Enumeration::over(const std::vector<std::size_t> &pools) {
    const bool has_home = home_ >= 0;
    if (pools.size() <= all_orders_up_to + (has_home ? 1 : 0))
        return permute(first_order(pools), has_home ? 1 : 0);
    bool complete = false;
    for (const auto start : pools) {
        if (has_home && static_cast<int>(start) != home_) continue;
        const auto order = chain(start, pools);
        if (order.size() != pools.size() || !linked(order)) continue;
        complete = true;
        try_order(order, several);
    }
    if (!complete && pools.size() <= all_subsets_up_to) permute(first_order(pools), has_home ? 1 : 0);
}

std::vector<std::size_t> Enumeration::indices() const {
    std::vector<std::size_t> all(pools_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
}

void Enumeration::run() {
    for (const auto i : indices())
        if (home_ < 0 || static_cast<int>(i) == home_) alone(i);
    if (spec_.sites.size() > 1)
        over(indices());
    else if (spec_.sites.empty())
        over_any();
}

void Enumeration::over_any() {
    const auto all = indices();
    if (all.size() <= all_subsets_up_to) {
        for (unsigned long set = 1; set < 1ul << all.size(); ++set) {
            std::vector<std::size_t> chosen;
            for (const auto i : all)
                if (set >> i & 1) chosen.push_back(i);
            const bool has_home = home_ < 0 || (set >> home_ & 1) != 0;
            if (chosen.size() > 1 && has_home) over(chosen);
        }
        return;
    }
    for (const auto start : all) {
        if (home_ >= 0 && static_cast<int>(start) != home_) continue;
        const auto order = chain(start, all);
        for (std::size_t n = 2; n <= order.size(); ++n) {
            const Order prefix(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n));
            if (linked(prefix)) try_order(prefix, several);
        }
    }
}

} // namespace spider::plan
