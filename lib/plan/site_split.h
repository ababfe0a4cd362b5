// SPDX-License-Identifier: GPL-3.0-or-later
// One site's consecutive layers to its consecutive stages, each stage on one node class with one kind of
// recomputation, so that the slowest stage is as fast as can be. Pure but for the deadline.
#pragma once

#include "plan/ilp.h"

#include <compare>
#include <cstddef>
#include <optional>

namespace spider::plan {

struct SplitProblem {
    int stages = 0, layers = 0;
    std::vector<int> slots; // per class: how many stages' worth of slots it has
    int options = 1;        // kinds of recomputation that are allowed
    // The time of a stage by index(); infinity: does not fit the memory there.
    std::vector<Seconds> seconds;

    [[nodiscard]] int classes() const { return static_cast<int>(slots.size()); }
    [[nodiscard]] std::size_t index(int stage, int node_class, int option, int length) const {
        const auto row = (std::size_t(stage) * slots.size() + std::size_t(node_class)) * std::size_t(options);
        return (row + std::size_t(option)) * std::size_t(layers) + std::size_t(length - 1);
    }
    [[nodiscard]] Seconds at(int stage, int node_class, int option, int length) const {
        return seconds[index(stage, node_class, option, length)];
    }
    auto operator<=>(const SplitProblem &) const = default;
};

struct Split { // by stage
    std::vector<int> lengths, classes, options;
    Seconds slowest = 0;
};

struct SplitResult {
    ilp::Outcome outcome = ilp::Outcome::out_of_time;
    std::optional<Split> split; // with optimal and feasible
    int programs = 0;           // that GLPK solved
    std::string trouble;        // with error
};

// "" or why the numbers are no problem at all.
std::string trouble_with(const SplitProblem &problem);

// Dynamic programming over (stage, layers used, stages on each class); for tests and small cases. Nullopt:
// there is no split.
std::optional<Split> split_exact(const SplitProblem &problem);

// By GLPK; `infeasible` also if every split is slower than `incumbent`. The same slowest time as
// split_exact().
SplitResult split_ilp(const SplitProblem &problem, Seconds incumbent, Seconds deadline);

} // namespace spider::plan
