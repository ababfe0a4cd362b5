// SPDX-License-Identifier: GPL-3.0-or-later
// Layers to the stages of a web, first cut: by the speed of each stage's slowest member, within memory, with
// the weight of the vocabulary head. The search then moves single layers where that gains.
#pragma once

#include "plan/layers.h"
#include "plan/problem.h"
#include "plan/web.h"

#include <vector>

namespace spider::plan {

class LayerDealer {
  public:
    LayerDealer(const Problem &problem, const Shape &shape);

    // `types`: cells per stage and GPU type. Room for the usual depth P - i if possible, else for one
    // micro-batch. Empty: the layers do not fit.
    [[nodiscard]] std::vector<int> deal(const std::vector<int> &types) const;

  private:
    [[nodiscard]] std::vector<int> deal(const std::vector<int> &types, const std::vector<int> &most) const;

    bool even_; // the trainer takes no other split
    int layers_;
    std::size_t types_;
    std::vector<Seconds> each_, base_;         // per GPU type: a layer; the head
    std::vector<int> usual_most_, least_most_; // layers that fit, per stage and GPU type
};

std::vector<int> even_layers(int layers, int stages); // the first stages have one more

} // namespace spider::plan
