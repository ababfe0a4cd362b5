// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/weave.h"

#include "plan/ring.h"

#include <algorithm>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

class Loom {
  public:
    Loom(const Problem &problem, const Shape &shape)
        : problem_(problem), shape_(shape), workload_(problem.workload(shape.tp)), sites_(problem.size()),
          batches_(problem.micro_batches(shape.dp())), fitted_(problem.depth_rule() == depth_fitted) {
        const int layers = workload_.layers();
        gradient_ = workload_.gradient(0, layers - 1) / shape.stages;
        for (std::size_t gpu = 0; gpu < problem.gpus().size(); ++gpu)
            stage_.push_back(workload_.times(static_cast<int>(gpu), 0, layers - 1).both() / shape.stages);
        for (std::size_t i = 0; i < sites_; ++i) {
            const int site = static_cast<int>(i);
            room_.push_back(problem.sites()[i].routable ? problem.slots(site, shape.tp) / shape.width : 0);
        }
        ring_.assign(index(shape.stages) * sites_, 0);
        cells_.assign(index(shape.cells()), -1);
    }

    bool put(int group, int stage, int hub) {
        int best = hub;
        if (best < 0) {
            Seconds least = never;
            for (std::size_t i = 0; i < sites_; ++i) {
                if (room_[i] < 1) continue;
                const auto cost = cost_of(group, stage, static_cast<int>(i));
                if (cost < least) least = cost, best = static_cast<int>(i);
            }
        }
        if (best < 0 || room_[index(best)] < 1) return false;
        --room_[index(best)];
        cells_[index(group * shape_.stages + stage)] = best;
        if (shape_.groups > 1) widen_ring(stage, best);
        return true;
    }

    std::vector<int> cells() && { return std::move(cells_); }

  private:
    [[nodiscard]] Seconds cost_of(int group, int stage, int site) const {
        Seconds cost = batches_ * stage_time(site) + ring_[index(stage) * sites_ + index(site)];
        for (const int step : {-1, 1}) {
            const int other = stage + step;
            if (other < 0 || other >= shape_.stages) continue;
            const int neighbour = cells_[index(group * shape_.stages + other)];
            if (neighbour >= 0) cost += radial(neighbour, site);
        }
        return cost;
    }

    [[nodiscard]] Seconds stage_time(int site) const {
        return stage_[index(problem_.sites()[index(site)].gpu)];
    }

    // What a boundary between two sites adds to an iteration.
    [[nodiscard]] Seconds radial(int a, int b) const {
        if (a == b) return 0;
        const auto &there = problem_.hop(a, b), &back = problem_.hop(b, a);
        const auto out = workload_.boundary() * there.shared(shape_.width),
                   in = workload_.boundary() * back.shared(shape_.width);
        const auto both = out + in + there.latency + back.latency;
        if (!fitted_) return batches_ * both / 2 + both;
        return batches_ * std::max(0.0, std::max(out, in) - stage_time(a)) + both;
    }

    // What a further member of the stage at each site would make of its ring.
    void widen_ring(int stage, int member) {
        const double k = shape_.groups;
        auto *costs = &ring_[index(stage) * sites_];
        for (std::size_t i = 0; i < sites_; ++i) {
            const int site = static_cast<int>(i);
            if (site == member || room_[i] < 1) continue;
            const auto &there = problem_.hop(site, member), &back = problem_.hop(member, site);
            const auto per_byte = (there.seconds_per_byte + back.seconds_per_byte) / 2;
            const auto latency = std::max(there.latency, back.latency);
            costs[i] = std::max(costs[i], 2 * (k - 1) * (gradient_ / k * per_byte + latency));
        }
    }

    const Problem &problem_;
    Shape shape_;
    const Workload &workload_;
    std::size_t sites_;
    int batches_;
    bool fitted_;
    Bytes gradient_ = 0;         // of an average stage
    std::vector<Seconds> stage_; // an average stage, per GPU type
    std::vector<int> room_;      // cells, per site
    std::vector<Seconds> ring_;  // per stage and site
    std::vector<int> cells_;
};

} // namespace

std::vector<int> weave(const Problem &problem, const Shape &shape, int hub, Thread thread) {
    Loom loom(problem, shape);
    const bool rings = thread == Thread::rings;
    const int outer = rings ? shape.stages : shape.groups, inner = rings ? shape.groups : shape.stages;
    for (int a = 0; a < outer; ++a)
        for (int b = 0; b < inner; ++b)
            if (!loom.put(rings ? b : a, rings ? a : b, a == 0 && b == 0 ? hub : -1)) return {};
    return std::move(loom).cells();
}

} // namespace spider::plan
