// SPDX-License-Identifier: GPL-3.0-or-later
// Layers to stages: water-filling with whole layers. Pure.
#pragma once

#include <span>
#include <vector>

namespace spider::plan {

struct Vessel {
    double each = 0; // what a layer adds
    double base = 0; // what the stage has without layers (the head)
    int most = 0;    // layers that fit
};

// Minimises the fullest vessel; every vessel has at least one layer, all sum to `layers`. Empty: they do not
// fit.
std::vector<int> fill(std::span<const Vessel> vessels, int layers);

} // namespace spider::plan
