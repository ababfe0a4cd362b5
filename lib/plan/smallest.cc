// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/smallest.h"

#include "plan/dealer.h"
#include "plan/weave.h"
#include "plan/web_state.h"

#include <algorithm>
#include <tuple>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

constexpr std::size_t most_tries = 4000; // webs

int gpus(const Shape &shape) { return shape.tp * shape.stages * shape.dp(); }

std::optional<Found> tried(const Problem &problem, const Shape &shape, std::vector<int> cells,
                           Crossings &crossings) {
    WebState state(problem, shape, crossings);
    state.reset(std::move(cells));
    if (!state.include_required()) return std::nullopt;
    if (!(state.seconds() < never)) return std::nullopt;
    auto priced = price(problem, state.web());
    if (!priced) return std::nullopt;
    return Found{state.web(), std::move(*priced)};
}

bool fits_alone(const Problem &problem, const Shape &shape, int site) {
    return shape.groups == 1 && problem.slots(site, shape.tp) >= shape.stages * shape.width &&
           (problem.home() < 0 || site == problem.home());
}

// All stages on this type, layers split so that the fullest is as empty as possible.
Miss miss_of(const Problem &problem, int site, const Shape &shape) {
    const auto &ground = problem.sites()[index(site)];
    const auto &workload = problem.workload(shape.tp);
    const int layers = workload.layers();
    std::vector<Vessel> vessels;
    for (int i = 0; i < shape.stages; ++i) {
        const int first = i == 0 ? 0 : i + 1 == shape.stages ? layers - 1 : std::min(layers / 2, layers - 1);
        const auto one = workload.memory(first, first, 1, shape.dp());
        const int other = std::clamp(layers / 2, 0, layers - 1);
        const auto each = workload.memory(other, other, 1, shape.dp());
        vessels.push_back({.each = std::max(each, 1.0), .base = std::max(one - each, 0.0), .most = layers});
    }
    Miss miss{ground.pool.gpu.name, ground.pool.name, 0, 0, workload.available(ground.gpu), shape};
    int first = 0, stage = 0;
    for (const int count : fill(vessels, layers)) {
        const auto needed = workload.memory(first, first + count - 1, 1, shape.dp());
        if (needed > miss.needed) miss.needed = needed, miss.stage = stage;
        first += count, ++stage;
    }
    return miss;
}

} // namespace

std::optional<Found> smallest(const Problem &problem) {
    std::vector<RatedShape> shapes = shapes_over_sites(problem);
    const auto over = shapes.size();
    for (int site = 0; site < static_cast<int>(problem.size()); ++site)
        for (const auto &rated : shapes_at_site(problem, site))
            shapes.push_back(rated);
    std::stable_sort(shapes.begin(), shapes.end(), [](const RatedShape &a, const RatedShape &b) {
        return std::tuple(gpus(a.shape), a.shape.cells(), a.shape) <
               std::tuple(gpus(b.shape), b.shape.cells(), b.shape);
    });
    Crossings crossings;
    const auto required = std::count_if(problem.sites().begin(), problem.sites().end(),
                                        [](const Ground &site) { return site.required; });
    std::size_t tries = 0;
    for (const auto &rated : shapes) {
        const auto &shape = rated.shape;
        for (int site = 0; site < static_cast<int>(problem.size()); ++site) {
            if (++tries > most_tries) return std::nullopt;
            if (required <= 1 && fits_alone(problem, shape, site))
                if (auto found =
                        tried(problem, shape, std::vector<int>(index(shape.cells()), site), crossings))
                    return found;
            if (over == 0 || shape.cells() < 2 || (problem.home() >= 0 && site != problem.home())) continue;
            if (!problem.sites()[index(site)].routable || problem.slots(site, shape.tp) < shape.width)
                continue;
            auto cells = weave(problem, shape, site, Thread::radials);
            if (cells.empty()) continue;
            if (auto found = tried(problem, shape, std::move(cells), crossings)) return found;
        }
    }
    return std::nullopt;
}

std::vector<Miss> misses(const Problem &problem) {
    std::vector<Miss> nearest;
    for (int site = 0; site < static_cast<int>(problem.size()); ++site) {
        for (const int tp : problem.tensor_sizes()) {
            int slots = problem.slots(site, tp);
            for (std::size_t i = 0; i < problem.size(); ++i) // with all sites of the type that it can reach
                if (static_cast<int>(i) != site &&
                    problem.sites()[i].gpu == problem.sites()[index(site)].gpu &&
                    problem.linked(site, static_cast<int>(i)))
                    slots += problem.slots(static_cast<int>(i), tp);
            if (slots < 1) continue;
            for (const int dp : data_sizes(problem.spec(), slots)) {
                const int layers = problem.workload(tp).layers();
                const int stages = std::min(problem.spec().pp.value_or(layers), std::min(layers, slots / dp));
                if (stages < 1) continue;
                auto miss = miss_of(problem, site, {tp, stages, 1, dp});
                if (miss.needed <= miss.has) continue;
                const auto known = std::find_if(nearest.begin(), nearest.end(),
                                                [&](const Miss &other) { return other.gpu == miss.gpu; });
                if (known == nearest.end())
                    nearest.push_back(std::move(miss));
                else if (miss.needed / miss.has < known->needed / known->has)
                    *known = std::move(miss);
            }
        }
    }
    std::sort(nearest.begin(), nearest.end(), [](const Miss &a, const Miss &b) { return a.gpu < b.gpu; });
    return nearest;
}

} // namespace spider::plan
