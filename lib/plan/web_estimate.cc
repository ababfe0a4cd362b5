// SPDX-License-Identifier: GPL-3.0-or-later
// The estimates of a WebState: groups, rings, tied embeddings, and their sum.
#include "plan/web_state.h"

#include <algorithm>
#include <numeric>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Sums of these tell sets of sites apart (splitmix64).
std::uint64_t mixed(int site) {
    auto bits = (static_cast<std::uint64_t>(site) + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9ull;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBull;
    return bits ^ bits >> 31;
}

constexpr int small_web = 16; // cells; its rings are exact

// What a missing link, a ring that is not closed, or a stage that does not hold one micro-batch adds to the
// value, relatively: a search may come through webs that cannot run.
constexpr double fault = 0.5;

// Weight of the mean pipeline and the mean ring in a move's value.
constexpr double slope_weight = 0.02;

} // namespace

void WebState::estimate_all() {
    for (int g = 0; g < web_.shape.groups; ++g)
        estimate_group(g);
    for (int i = 0; i < web_.shape.stages; ++i)
        estimate_ring(i);
    estimate_tied();
    sum();
}

void WebState::estimate_changed(std::span<const Change> changes, double limit) {
    const int stages = web_.shape.stages;
    const auto first_with = [&](std::size_t i, auto of) {
        for (std::size_t j = 0; j < i; ++j)
            if (of(changes[j].first) == of(changes[i].first)) return false;
        return true;
    };
    Seconds slowest = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const int group = changes[i].first / stages;
        if (!first_with(i, [&](int cell) { return cell / stages; })) continue;
        estimate_group(group);
        slowest = std::max(slowest, now_.pass[index(group)] + (batches_ - 1) * now_.tau[index(group)]);
    }
    if (slowest > limit) { // whatever the rings cost
        now_.seconds = now_.value = slowest;
        return;
    }
    for (std::size_t i = 0; i < changes.size(); ++i)
        if (first_with(i, [&](int cell) { return cell % stages; })) estimate_ring(changes[i].first % stages);
    estimate_tied();
    sum();
}

// The innermost loop of every search: plain pointers.
void WebState::estimate_group(int group) {
    const int stages = web_.shape.stages;
    const auto types = problem_.gpus().size();
    const auto bytes = workload_.boundary();
    work_ += 6 * stages;
    const int *cell = &web_.cells[index(group * stages)];
    const Times *times = times_.data();
    StageTime *stage = scratch_.stages.data();
    Boundary *boundary = scratch_.boundaries.data();
    Seconds *head_start = &now_.head_start[index(group * stages)];
    Seconds pass = 0, head = 0;
    int gaps = 0;
    for (int i = 0; i < stages; ++i, times += types) {
        const int at = cell[i];
        const Times &own = types == 1 ? *times : times[gpu_[index(at)]];
        stage[i] = {own.forward, own.backward};
        head_start[i] = head;
        pass += own.forward + own.backward;
        if (i + 1 == stages) break;
        const int to = cell[i + 1];
        if (at == to) {
            const auto &site = problem_.sites()[index(at)];
            const auto occupancy = bytes / site.lan_bandwidth;
            boundary[i] = {site.lan_latency, occupancy, site.lan_latency, occupancy};
        } else {
            const double flows = web_.shape.width * (sharing_ ? crossing_[pair_index(at, to)] : 1);
            const bool linked = problem_.linked(at, to);
            const auto &there = linked ? problem_.hop(at, to) : problem_.worst_hop();
            const auto &back = linked ? problem_.hop(to, at) : problem_.worst_hop();
            gaps += linked ? 0 : 1;
            boundary[i] = {there.latency, bytes * there.shared(flows), back.latency,
                           bytes * back.shared(flows)};
        }
        pass += boundary[i].both();
        head += own.backward + boundary[i].backward();
    }
    now_.pass[index(group)] = pass, now_.gaps[index(group)] = gaps;
    now_.tau[index(group)] = tau_of_scratch();
}

Seconds WebState::tau_of_scratch() {
    if (rule_ == depth_fitted && endless_ && !blocking_) return least_period(scratch_).seconds;
    work_ += web_.shape.stages * web_.shape.stages / 3;
    if (blocking_) scratch_ = with_blocking_sends(scratch_);
    if (rule_ != depth_fitted) return period(scratch_, falling_, batches_).seconds;
    work_ += web_.shape.stages * web_.shape.stages * 3;
    return period(scratch_, hiding_depths(scratch_, caps_, 0.005), batches_).seconds;
}

// Two stages that share no site pair nor ring are independent; rings over the same sites share every link of
// it.
void WebState::estimate_ring(int stage) {
    const auto at = index(stage);
    scratch_sites_.clear();
    std::uint64_t hash = 0;
    int most = 0;
    int most_site = web_.at(0, stage);
    for (int g = 0; g < web_.shape.groups; ++g) {
        const int site = web_.at(g, stage);
        int members = 0;
        bool seen = false;
        for (int h = 0; h < web_.shape.groups && !seen; ++h) {
            const bool same = web_.at(h, stage) == site;
            seen = h < g && same;
            members += same ? web_.shape.width : 0;
        }
        if (seen) continue;
        scratch_sites_.push_back(site);
        hash += mixed(site);
        if (members > most) most = members, most_site = site;
    }
    const int first = first_layer(stage);
    const auto bytes = workload_.gradient(first, first + web_.layers[at] - 1);
    const auto k = static_cast<std::int64_t>(scratch_sites_.size());
    work_ += 10 + k * (k / 2 + 2) + std::int64_t{web_.shape.groups} * web_.shape.groups / 3;
    now_.local[at] = most > 1 ? problem_.local_ring(most_site, web_.shape.tp, bytes, most) : 0;
    now_.ring_sites[at] = scratch_sites_.size() > 1 ? hash : 0;
    if (scratch_sites_.size() < 2) {
        now_.ring[at] = now_.ring_latency[at] = 0, now_.holes[at] = 0;
        return;
    }
    const bool exact = web_.shape.cells() <= small_web && scratch_sites_.size() > 4; // the other is, up to 4
    auto ring =
        exact ? best_ring(problem_, scratch_sites_, bytes).cost : good_ring(problem_, scratch_sites_, bytes);
    now_.holes[at] = ring.latency < no_way ? 0 : 1;
    if (ring.latency >= no_way) ring = {problem_.worst_hop().seconds_per_byte, problem_.worst_hop().latency};
    const auto count = scratch_sites_.size();
    now_.ring_latency[at] = ring.seconds(0, count);
    now_.ring[at] = ring.seconds(bytes, count) - ring.seconds(0, count);
}

int WebState::first_layer(int stage) const {
    int first = 0;
    for (int i = 0; i < stage; ++i)
        first += web_.layers[index(i)];
    return first;
}

void WebState::estimate_tied() {
    const auto bytes = workload_.tied_gradient();
    now_.tied = 0, now_.tied_gaps = 0;
    if (bytes <= 0 || web_.shape.stages < 2) return;
    for (int g = 0; g < web_.shape.groups; ++g) {
        const int a = web_.at(g, 0), b = web_.at(g, web_.shape.stages - 1);
        if (a == b) continue;
        int flows = 0; // pipelines between the same two sites
        for (int h = 0; h < web_.shape.groups; ++h)
            flows += web_.at(h, 0) == a && web_.at(h, web_.shape.stages - 1) == b ? web_.shape.width : 0;
        const bool linked = problem_.linked(a, b);
        const auto &there = linked ? problem_.hop(a, b) : problem_.worst_hop();
        const auto &back = linked ? problem_.hop(b, a) : problem_.worst_hop();
        now_.tied_gaps += linked ? 0 : 1;
        const auto per_byte = std::max(there.shared(flows), back.shared(flows));
        const auto latency = std::max(there.latency, back.latency);
        now_.tied = std::max(now_.tied, bytes * per_byte + 2 * latency);
    }
}

void WebState::sum() {
    const int stages = web_.shape.stages, groups = web_.shape.groups;
    now_.seconds = never;
    Seconds worst = 0, all = 0, slowest = 0;
    ends_.assign(index(stages), 0);
    for (int g = 0; g < groups; ++g) {
        const auto whole = now_.pass[index(g)] + (batches_ - 1) * now_.tau[index(g)];
        const auto *head_start = &now_.head_start[index(g * stages)];
        auto *ends = ends_.data();
        if (whole > slowest) slowest = whole, now_.worst_group = g;
        for (int i = 0; i < stages; ++i)
            ends[i] = std::max(ends[i], whole - head_start[i]);
        all += whole / groups;
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        int share = 1; // rings over the same sites
        for (std::size_t j = 0; j < ends_.size() && now_.ring_sites[i] != 0; ++j)
            share += j != i && now_.ring_sites[j] == now_.ring_sites[i] ? 1 : 0;
        const auto reduce = now_.local[i] + now_.ring[i] * share + now_.ring_latency[i];
        if (ends_[i] + reduce > worst) worst = ends_[i] + reduce, now_.worst_stage = static_cast<int>(i);
        all += reduce / stages;
    }
    work_ += 10 + stages * groups / 2 + stages * stages / 10;
    const auto seconds = worst + now_.tied;
    const int faults = overfull_ + now_.tied_gaps + std::accumulate(now_.gaps.begin(), now_.gaps.end(), 0) +
                       std::accumulate(now_.holes.begin(), now_.holes.end(), 0);
    now_.value = (seconds + slope_weight * (all + now_.tied)) * (1 + fault * faults);
    if (faults == 0) now_.seconds = seconds;
}

} // namespace spider::plan
