// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/dealer.h"

#include "model/trainer.h"

#include <algorithm>

namespace spider::plan {

namespace {

// The most layers of stage i that fit GPU `gpu` with `depth` micro-batches in flight; a stage in the middle
// is taken to lie in the middle of the model.
int most_layers(const Workload &workload, const Shape &shape, int stage, int gpu, int depth) {
    const int layers = workload.layers();
    const auto fits = [&](int count) {
        const int first = stage == 0 ? 0
                          : stage + 1 == shape.stages
                              ? layers - count
                              : std::min(layers / shape.stages * stage, layers - count);
        return workload.memory(first, first + count - 1, depth, shape.dp()) <= workload.available(gpu);
    };
    int low = 0, high = layers - shape.stages + 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (fits(middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

} // namespace

LayerDealer::LayerDealer(const Problem &problem, const Shape &shape)
    : even_(wants_even_layers(problem.spec())), types_(problem.gpus().size()) {
    const auto &workload = problem.workload(shape.tp);
    layers_ = workload.layers();
    for (std::size_t gpu = 0; gpu < types_; ++gpu) {
        const int type = static_cast<int>(gpu);
        const auto all = workload.times(type, 0, layers_ - 1).both();
        const auto last = workload.times(type, layers_ - 1, layers_ - 1).both();
        const auto usual = layers_ > 1 ? workload.times(type, layers_ - 2, layers_ - 2).both() : last;
        base_.push_back(std::max(last - usual, 0.0));
        each_.push_back((all - base_.back()) / layers_);
    }
    const int batches = problem.micro_batches(shape.dp());
    for (int i = 0; i < shape.stages; ++i) {
        const int usual = problem.depth_rule() > 0 ? std::max(1, problem.depth_rule() - i) : shape.stages - i;
        for (std::size_t gpu = 0; gpu < types_; ++gpu) {
            const int type = static_cast<int>(gpu);
            usual_most_.push_back(most_layers(workload, shape, i, type, std::min(usual, batches)));
            least_most_.push_back(most_layers(workload, shape, i, type, 1));
        }
    }
}

std::vector<int> LayerDealer::deal(const std::vector<int> &types) const {
    auto layers = deal(types, usual_most_);
    return layers.empty() ? deal(types, least_most_) : layers;
}

std::vector<int> LayerDealer::deal(const std::vector<int> &types, const std::vector<int> &most) const {
    std::vector<Vessel> vessels(types.size() / types_);
    for (std::size_t i = 0; i < vessels.size(); ++i) {
        auto &vessel = vessels[i];
        vessel.most = layers_;
        for (std::size_t gpu = 0; gpu < types_; ++gpu) {
            if (types[i * types_ + gpu] == 0) continue;
            vessel.each = std::max(vessel.each, each_[gpu]);
            if (i + 1 == vessels.size()) vessel.base = std::max(vessel.base, base_[gpu]);
            vessel.most = std::min(vessel.most, most[i * types_ + gpu]);
        }
    }
    if (!even_) return fill(vessels, layers_);
    auto split = even_layers(layers_, static_cast<int>(vessels.size()));
    for (std::size_t i = 0; i < vessels.size(); ++i)
        if (split[i] > vessels[i].most) return {};
    return split;
}

std::vector<int> even_layers(int layers, int stages) {
    std::vector<int> split(static_cast<std::size_t>(stages), layers / stages);
    for (int i = 0; i < layers % stages; ++i)
        ++split[static_cast<std::size_t>(i)];
    return split;
}

} // namespace spider::plan
