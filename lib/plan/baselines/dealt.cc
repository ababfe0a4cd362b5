// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/baselines/dealt.h"

#include "model/trainer.h"
#include "plan/shapes.h"

#include <algorithm>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

std::vector<int> even_layers(int layers, int stages) {
    std::vector<int> each;
    for (int i = 0; i < stages; ++i)
        each.push_back(layers * (i + 1) / stages - layers * i / stages);
    return each;
}

std::vector<Shape> shapes_of(const Problem &problem) {
    const auto &spec = problem.spec();
    std::vector<Shape> shapes;
    for (const int tp : problem.tensor_sizes()) {
        const auto slots = static_cast<int>(all_slots(problem, tp).size());
        const int layers = problem.workload(tp).layers();
        for (const int dp : data_sizes(spec, slots))
            for (const int stages : spec.pp ? std::vector{*spec.pp} : stage_counts(spec, layers))
                if (stages * dp <= slots && (layers % stages == 0 || !wants_even_layers(spec)))
                    shapes.push_back({tp, stages, dp, 1});
    }
    std::stable_sort(shapes.begin(), shapes.end(), [](const Shape &a, const Shape &b) {
        return std::int64_t{a.tp} * a.cells() > std::int64_t{b.tp} * b.cells();
    });
    return shapes;
}

std::optional<Found> found_at(const Problem &problem, const Shape &shape, const std::vector<int> &placed) {
    if (placed.size() != index(shape.cells())) return std::nullopt;
    Web web{shape, std::vector<int>(placed.size()),
            even_layers(problem.workload(shape.tp).layers(), shape.stages)};
    for (int s = 0; s < shape.stages; ++s)
        for (int d = 0; d < shape.groups; ++d)
            web.cells[index(d * shape.stages + s)] = placed[index(s * shape.groups + d)];
    for (std::size_t site = 0; site < problem.size(); ++site)
        if (problem.sites()[site].required &&
            std::find(placed.begin(), placed.end(), static_cast<int>(site)) == placed.end())
            return std::nullopt;
    auto priced = price(problem, web);
    if (!priced) return std::nullopt;
    return Found{std::move(web), std::move(*priced)};
}

} // namespace

JobSpec with_published_depth(JobSpec spec) {
    if (spec.depth == depth_of_trainer) spec.depth = depth_stages;
    return spec;
}

std::vector<int> all_slots(const Problem &problem, int tp) {
    const auto &names = problem.spec().sites;
    std::vector<int> order;
    for (int site = 0; site < static_cast<int>(problem.size()); ++site)
        if (problem.sites()[index(site)].routable) order.push_back(site);
    const auto place = [&](int site) {
        return std::find(names.begin(), names.end(), problem.sites()[index(site)].pool.name) - names.begin();
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
    std::vector<int> slots;
    for (const int site : order)
        slots.insert(slots.end(), index(problem.slots(site, tp)), site);
    return slots;
}

Finds place_all(const Problem &problem, const Placing &placing) {
    Finds finds;
    std::int64_t used = 0;
    for (const auto &shape : shapes_of(problem)) {
        const auto gpus = std::int64_t{shape.tp} * shape.cells();
        const bool any = std::any_of(finds.best.begin(), finds.best.end(),
                                     [](const auto &best) { return best.has_value(); });
        if (any && gpus < used) break;
        used = gpus;
        auto found = found_at(problem, shape, placing(problem, shape, finds.evaluations));
        ++finds.evaluations;
        if (!found) continue;
        auto &best = finds.best[static_cast<std::size_t>(family_of(found->web))];
        if (!best || found->seconds() < best->seconds()) best = std::move(found);
    }
    return finds;
}

} // namespace spider::plan
