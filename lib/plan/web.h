// SPDX-License-Identifier: GPL-3.0-or-later
// The web: P stages (rings: their members exchange gradients) by D pipelines (radials: they pass
// activations). `width` pipelines that run through the same sites are one group, so that a site with many
// equal slots is handled by count: a cell is a site that carries `width` members of one stage. Plain value.
#pragma once

#include <compare>
#include <vector>

namespace spider::plan {

struct Shape {
    int tp = 1;
    int stages = 1; // P
    int groups = 1;
    int width = 1; // D = groups x width
    [[nodiscard]] int dp() const { return groups * width; }
    [[nodiscard]] int cells() const { return groups * stages; }
    auto operator<=>(const Shape &) const = default;
};

struct Web {
    Shape shape;
    std::vector<int> cells;  // group by group, stage by stage: index of a site in the Problem
    std::vector<int> layers; // of each stage
    [[nodiscard]] int at(int group, int stage) const {
        return cells[static_cast<std::size_t>(group * shape.stages + stage)];
    }
    auto operator<=>(const Web &) const = default;
};

} // namespace spider::plan
