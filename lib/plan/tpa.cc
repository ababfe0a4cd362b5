// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/tpa.h"

#include "plan/split_cache.h"

#include <algorithm>
#include <set>
#include <utility>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

constexpr std::size_t most_runs = 64;
constexpr int most_rounds = 40; // of layers moved between stages

// Consecutive stages of a group at one site: [first, last].
using Run = std::pair<int, int>;

std::set<Run> runs_of(const Web &web) {
    std::set<Run> runs;
    for (int g = 0; g < web.shape.groups; ++g) {
        for (int first = 0, i = 1; i <= web.shape.stages; ++i) {
            if (i < web.shape.stages && web.at(g, i) == web.at(g, first)) continue;
            if (i - first > 1) runs.emplace(first, i - 1);
            first = i;
        }
    }
    return runs;
}

int first_layer(const Web &web, int stage) {
    int first = 0;
    for (int i = 0; i < stage; ++i)
        first += web.layers[index(i)];
    return first;
}

// The slowest member of the stage; `never` where a member's GPU does not hold it at its depth.
Seconds stage_seconds(const Problem &problem, const Found &found, int stage, int first, int last) {
    const auto &web = found.web;
    const auto &workload = problem.workload(web.shape.tp);
    const auto needed = workload.memory(first, last, found.priced.depths[index(stage)], web.shape.dp());
    Seconds slowest = 0;
    for (int g = 0; g < web.shape.groups; ++g) {
        const int gpu = problem.sites()[index(web.at(g, stage))].gpu;
        if (needed > workload.available(gpu)) return never;
        slowest = std::max(slowest, workload.times(gpu, first, last).both());
    }
    return slowest;
}

// All members of a stage hold the same layers, so a class is "whatever this stage runs on", with room for all
// stages. A stage's first layer is taken as the even split puts it: layers of one kind cost the same wherever
// they are.
SplitProblem split_of(const Problem &problem, const Found &found, const Run &run) {
    SplitProblem split;
    split.stages = run.second - run.first + 1;
    for (int i = run.first; i <= run.second; ++i)
        split.layers += found.web.layers[index(i)];
    split.slots = {split.stages};
    const int begin = first_layer(found.web, run.first), end = begin + split.layers;
    for (int s = 0; s < split.stages; ++s) {
        const bool last = s + 1 == split.stages;
        for (int length = 1; length <= split.layers; ++length) {
            const int first = s == 0 ? begin
                              : last ? end - length
                                     : std::min(begin + split.layers * s / split.stages, end - length);
            split.seconds.push_back(stage_seconds(problem, found, run.first + s, first, first + length - 1));
        }
    }
    return split;
}

bool improves(const Problem &problem, Found &found, Web web) {
    auto priced = price(problem, web);
    if (!priced || !(priced->iteration.seconds < found.seconds() * (1 - 1e-9))) return false;
    found = {std::move(web), std::move(*priced)};
    return true;
}

bool move_layers(const Problem &problem, Found &found) {
    bool better = false;
    const int stages = found.web.shape.stages;
    for (int from = 0; from < stages; ++from) {
        for (const int to : {from - 1, from + 1}) {
            if (to < 0 || to >= stages || found.web.layers[index(from)] < 2) continue;
            auto web = found.web;
            --web.layers[index(from)], ++web.layers[index(to)];
            better |= improves(problem, found, std::move(web));
        }
    }
    return better;
}

} // namespace

Found split_layers(const Problem &problem, Found found, Seconds deadline) {
    SplitCache cache;
    const auto runs = runs_of(found.web);
    if (runs.size() <= most_runs) {
        for (const auto &run : runs) {
            const auto split = split_of(problem, found, run);
            Seconds incumbent = 0;
            for (int i = run.first; i <= run.second; ++i) {
                const int first = first_layer(found.web, i);
                incumbent = std::max(incumbent, stage_seconds(problem, found, i, first,
                                                              first + found.web.layers[index(i)] - 1));
            }
            const auto result = cache.split(split, incumbent, deadline / static_cast<double>(runs.size()));
            if (result.outcome != ilp::Outcome::optimal || !result.split) continue;
            auto web = found.web;
            std::copy(result.split->lengths.begin(), result.split->lengths.end(),
                      web.layers.begin() + run.first);
            improves(problem, found, std::move(web));
        }
    }
    const auto cells = found.web.shape.cells();
    for (int round = 0; round < most_rounds && cells <= 256 && move_layers(problem, found); ++round) {
    }
    return found;
}

} // namespace spider::plan
