// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/bounds.h"

#include "plan/shapes.h"

#include <algorithm>
#include <numeric>

namespace spider::plan {

namespace {

// By number of layers: the least seconds and gradient bytes of so many in a row.
void least_runs(const Workload &workload, std::vector<Seconds> &seconds, std::vector<Bytes> &gradient) {
    const int layers = workload.layers();
    seconds.assign(static_cast<std::size_t>(layers) + 1, never), gradient = seconds;
    seconds[0] = gradient[0] = 0;
    for (int count = 1; count <= layers; ++count) {
        for (int first = 0; first + count <= layers; ++first) {
            auto &time = seconds[static_cast<std::size_t>(count)];
            auto &bytes = gradient[static_cast<std::size_t>(count)];
            time = std::min(time, workload.fastest(first, first + count - 1));
            bytes = std::min(bytes, workload.gradient(first, first + count - 1));
        }
    }
}

// Micro-batches of the whole model per second that a slot of this type adds at most: no layer gains more on
// it than the one that it suits best. Of types that differ by a factor it is that factor.
double most_speed(const Workload &workload, int gpu) {
    Seconds all = 0;
    double share = 0;
    for (int layer = 0; layer < workload.layers(); ++layer) {
        const auto fastest = workload.fastest(layer, layer);
        all += fastest;
        share = std::max(share, fastest / workload.times(gpu, layer, layer).both());
    }
    return all > 0 ? share / all : never;
}

} // namespace

Bounds::Bounds(const Problem &problem) : problem_(problem) {
    const auto sites = static_cast<int>(problem.size());
    for (int i = 0; i < sites; ++i) {
        double best = 0;
        for (int j = 0; j < sites; ++j) {
            if (i == j || !problem.linked(i, j)) continue;
            best = std::max(best, 1 / problem.hop(i, j).seconds_per_byte);
            least_latency_ = std::min(least_latency_, problem.hop(i, j).latency);
        }
        best_bandwidth_.push_back(best);
    }
    std::sort(best_bandwidth_.rbegin(), best_bandwidth_.rend());
    for (const int tp : problem.tensor_sizes()) {
        const auto &workload = problem.workload(tp);
        auto &slots = slots_[tp];
        std::vector<double> by_type;
        for (std::size_t gpu = 0; gpu < problem.gpus().size(); ++gpu)
            by_type.push_back(most_speed(workload, static_cast<int>(gpu)));
        std::vector<std::pair<double, int>> by_speed; // speed of a slot, slots
        for (int i = 0; i < sites; ++i) {
            const int count = problem.slots(i, tp);
            if (count < 1) continue;
            by_speed.emplace_back(
                by_type[static_cast<std::size_t>(problem.sites()[static_cast<std::size_t>(i)].gpu)], count);
            slots.widest = std::max(slots.widest, count);
        }
        least_runs(workload, slots.least_seconds, slots.least_gradient);
        std::sort(by_speed.rbegin(), by_speed.rend());
        double speed = 0;
        int count = 0;
        for (const auto &[each, number] : by_speed) {
            slots.speeds.push_back(speed += each * number);
            slots.counts.push_back(count += number);
            slots.each.push_back(each);
        }
    }
}

// With several sites in one ring: as many as there must be, over the best links that so many sites have. Its
// slowest link sends all parts, and a part goes over as many links.
Seconds Bounds::reduce(const Slots &slots, int dp, int layers) const {
    if (dp <= slots.widest) return 0;
    const int sites = (dp + slots.widest - 1) / slots.widest;
    const auto worst = best_bandwidth_[std::min(static_cast<std::size_t>(sites), best_bandwidth_.size()) - 1];
    if (worst <= 0) return never;
    const auto bytes = slots.least_gradient[static_cast<std::size_t>(layers)];
    const auto steps = 2.0 * (sites - 1), part = bytes / sites;
    return std::max(steps * part / worst + least_latency_,
                    steps * (part / best_bandwidth_.front() + least_latency_));
}

// From the first forward to the last backward of stage 0.
Seconds Bounds::path(int tp, const Slots &slots, int stages, int dp) const {
    const auto &workload = problem_.workload(tp);
    const int batches = problem_.micro_batches(dp);
    auto pass = slots.least_seconds.back();
    Seconds occupancy = 0;
    if (stages > slots.widest) {
        const int crossings = (stages + slots.widest - 1) / slots.widest - 1;
        if (best_bandwidth_.front() <= 0) return never;
        occupancy = workload.boundary() / best_bandwidth_.front();
        pass += 2 * crossings * (occupancy + least_latency_);
    }
    const int rule = problem_.depth_rule();
    if (rule == depth_fitted) return pass + (batches - 1) * occupancy;
    const int depth = rule == depth_stages ? stages : rule;
    return std::max(pass + (batches - 1) * occupancy, ((batches - 1) / depth + 1) * pass);
}

// Micro-batches of D pipelines per second on the P x D fastest slots; 0: there are not so many.
double Bounds::speed(const Slots &slots, std::int64_t needed) {
    if (slots.counts.empty() || needed > slots.counts.back()) return 0;
    const auto at = static_cast<std::size_t>(
        std::lower_bound(slots.counts.begin(), slots.counts.end(), needed) - slots.counts.begin());
    return slots.speeds[at] - slots.each[at] * static_cast<double>(slots.counts[at] - needed);
}

Seconds Bounds::period(int tp, int stages, int dp) const {
    const auto found = slots_.find(tp);
    const auto fast = found == slots_.end() ? 0 : speed(found->second, std::int64_t{stages} * dp);
    if (fast <= 0) return never;
    const int longest = (problem_.workload(tp).layers() + stages - 1) / stages;
    return std::max(dp / fast, found->second.least_seconds[static_cast<std::size_t>(longest)]);
}

Seconds Bounds::of_shape(int tp, int stages, int dp) const {
    const auto found = slots_.find(tp);
    const auto fast = found == slots_.end() ? 0 : speed(found->second, std::int64_t{stages} * dp);
    if (fast <= 0) return never;
    const auto &slots = found->second;
    const int layers = problem_.workload(tp).layers(), batches = problem_.micro_batches(dp);
    const int longest = (layers + stages - 1) / stages;
    return std::max(
        {batches * slots.least_seconds[static_cast<std::size_t>(longest)] + reduce(slots, dp, longest),
         batches * (dp / fast) + reduce(slots, dp, 1), path(tp, slots, stages, dp) + reduce(slots, dp, 1)});
}

Seconds Bounds::of_job() const {
    Seconds least = never;
    const auto &spec = problem_.spec();
    for (const auto &[tp, slots] : slots_) {
        if (slots.counts.empty()) continue;
        const int layers = problem_.workload(tp).layers();
        const int first = spec.pp.value_or(1), last = spec.pp.value_or(layers);
        for (const int dp : data_sizes(spec, slots.counts.back()))
            for (int stages = first; stages <= last && std::int64_t{stages} * dp <= slots.counts.back();
                 ++stages)
                least = std::min(least, of_shape(tp, stages, dp));
    }
    return least;
}

} // namespace spider::plan
