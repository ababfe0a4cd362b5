// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/shapes.h"

#include "model/trainer.h"
#include "plan/bounds.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace spider::plan {

namespace {

constexpr int all_counts_up_to = 12;
constexpr int most_cells = 4096; // a greater web is one of wider groups

// Cells of so many slots each that all sites together hold.
std::int64_t cells_of_width(const Problem &problem, int tp, int width) {
    std::int64_t cells = 0;
    for (std::size_t i = 0; i < problem.size(); ++i)
        if (problem.sites()[i].routable) cells += problem.slots(static_cast<int>(i), tp) / width;
    return cells;
}

int widest_site(const Problem &problem, int tp) {
    int most = 0;
    for (std::size_t i = 0; i < problem.size(); ++i)
        if (problem.sites()[i].routable) most = std::max(most, problem.slots(static_cast<int>(i), tp));
    return most;
}

// The fullest stage holds at least the mean of all, with one micro-batch each. False: no web of the shape
// fits.
bool may_fit(const Workload &workload, int stages, int dp, Bytes available) {
    return workload.memory(0, workload.layers() - 1, 1, dp) <= available * stages;
}

std::vector<RatedShape> sorted(std::vector<RatedShape> shapes) {
    std::stable_sort(shapes.begin(), shapes.end(), [](const RatedShape &a, const RatedShape &b) {
        return std::tuple(a.estimate, a.shape.cells(), a.shape) <
               std::tuple(b.estimate, b.shape.cells(), b.shape);
    });
    return shapes;
}

// The links from the most central site to its nearest: means over the nearest 1, 2, 3, ... of them.
struct Surroundings {
    std::vector<double> seconds_per_byte;
    std::vector<Seconds> latency;
};

Surroundings surroundings(const Problem &problem) {
    const auto sites = static_cast<int>(problem.size());
    const auto cost = [&](int from, int to) {
        const auto &hop = problem.hop(from, to);
        return hop.latency < no_way ? hop.latency + hop.seconds_per_byte * 1e7 : 10.0;
    };
    int hub = problem.home();
    double least = never;
    for (int i = 0; problem.home() < 0 && i < sites; ++i) {
        double sum = 0;
        for (int j = 0; j < sites; ++j)
            sum += i == j ? 0 : cost(i, j);
        if (sum < least) least = sum, hub = i;
    }
    std::vector<int> others;
    for (int j = 0; j < sites; ++j)
        if (j != hub && problem.linked(hub, j)) others.push_back(j);
    std::stable_sort(others.begin(), others.end(), [&](int a, int b) { return cost(hub, a) < cost(hub, b); });
    Surroundings around;
    double per_byte = 0;
    Seconds latency = 0;
    for (const int other : others) {
        per_byte += problem.hop(hub, other).seconds_per_byte, latency += problem.hop(hub, other).latency;
        around.seconds_per_byte.push_back(per_byte / static_cast<double>(around.latency.size() + 1));
        around.latency.push_back(latency / static_cast<double>(around.latency.size() + 1));
    }
    return around;
}

// A web of this shape whose sites hold as many stages of a group as they can, over mean links.
Seconds estimate(const Problem &problem, const Bounds &bounds, const Surroundings &around, const Shape &shape,
                 int widest) {
    const auto &workload = problem.workload(shape.tp);
    const int layers = workload.layers(), batches = problem.micro_batches(shape.dp());
    const int longest = (layers + shape.stages - 1) / shape.stages;
    const int stages_per_site = std::clamp(widest / shape.width, 1, shape.stages);
    const int crossings = (shape.stages + stages_per_site - 1) / stages_per_site - 1;
    const auto sites = static_cast<std::size_t>(shape.groups) * static_cast<std::size_t>(crossings + 1);
    auto tau = bounds.period(shape.tp, shape.stages, shape.dp());
    if (sites < 2 || around.latency.empty()) return batches * tau;
    const auto at = std::min(sites - 2, around.latency.size() - 1);
    const auto occupancy =
        crossings > 0 ? workload.boundary() * shape.width * around.seconds_per_byte[at] : 0;
    const auto pass = workload.fastest(0, layers - 1) + 2 * crossings * (around.latency[at] + occupancy);
    int depth = std::min(batches, std::max(1, workload.depth_within(0, 0, longest - 1, shape.dp())));
    if (problem.depth_rule() != depth_fitted)
        depth = std::min(depth, problem.depth_rule() == depth_stages ? shape.stages : problem.depth_rule());
    tau = std::max({tau, occupancy, depth < batches ? pass / depth : 0});
    const double k = shape.groups;
    const auto bytes = workload.gradient(0, layers - 1) / shape.stages;
    const auto reduce =
        shape.groups < 2
            ? 0
            : 2 * (k - 1) * (bytes / k * stages_per_site * around.seconds_per_byte[at] + around.latency[at]);
    return pass + (batches - 1) * tau + reduce;
}

} // namespace

std::vector<int> stage_counts(const JobSpec &spec, int layers) {
    if (spec.pp) return *spec.pp <= layers ? std::vector{*spec.pp} : std::vector<int>();
    std::vector<int> counts;
    if (wants_even_layers(spec)) {
        for (int count = 1; count <= layers; ++count)
            if (layers % count == 0) counts.push_back(count);
        return counts;
    }
    for (int longest = layers; longest >= 1; --longest)
        counts.push_back((layers + longest - 1) / longest);
    for (int count = 1; count <= std::min(all_counts_up_to, layers); ++count)
        counts.push_back(count);
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
}

std::vector<int> data_sizes(const JobSpec &spec, int most) {
    const int batches = spec.global_batch / spec.micro_batch;
    std::vector<int> sizes;
    if (spec.dp) return *spec.dp <= most && batches % *spec.dp == 0 ? std::vector{*spec.dp} : sizes;
    for (int dp = 1; dp <= std::min(most, batches); ++dp)
        if (batches % dp == 0) sizes.push_back(dp);
    return sizes;
}

std::vector<RatedShape> shapes_over_sites(const Problem &problem) {
    const Bounds bounds(problem);
    const auto around = surroundings(problem);
    const auto required = std::count_if(problem.sites().begin(), problem.sites().end(),
                                        [](const Ground &site) { return site.required; });
    Bytes most_memory = 0;
    for (const auto &gpu : problem.gpus())
        most_memory = std::max(most_memory, gpu.memory);
    std::vector<RatedShape> shapes;
    for (const int tp : problem.tensor_sizes()) {
        const auto slots = static_cast<int>(std::min<std::int64_t>(cells_of_width(problem, tp, 1), 1 << 30));
        const int widest = widest_site(problem, tp);
        std::map<int, std::int64_t> room; // cells, by width
        for (const int dp : data_sizes(problem.spec(), slots)) {
            for (int width = 1; width <= std::min(dp, widest); ++width) {
                if (dp % width != 0) continue;
                if (!room.contains(width)) room[width] = cells_of_width(problem, tp, width);
                for (const int stages : stage_counts(problem.spec(), problem.workload(tp).layers())) {
                    const Shape shape{tp, stages, dp / width, width};
                    const auto cells = std::int64_t{stages} * shape.groups;
                    if (cells > std::min<std::int64_t>(room[width], most_cells)) break;
                    if (cells < std::max<std::int64_t>(required, 2)) continue;
                    if (!may_fit(problem.workload(tp), stages, dp, most_memory)) continue;
                    const auto bound = bounds.of_shape(tp, stages, dp);
                    if (bound < never)
                        shapes.push_back({shape, bound, estimate(problem, bounds, around, shape, widest)});
                }
            }
        }
    }
    return sorted(std::move(shapes));
}

std::vector<RatedShape> shapes_at_site(const Problem &problem, int site) {
    std::vector<RatedShape> shapes;
    const int gpu = problem.sites()[static_cast<std::size_t>(site)].gpu;
    for (const int tp : problem.tensor_sizes()) {
        const auto &workload = problem.workload(tp);
        const int slots = problem.slots(site, tp);
        const auto whole = workload.times(gpu, 0, workload.layers() - 1).both();
        for (const int dp : data_sizes(problem.spec(), slots)) {
            for (const int stages : stage_counts(problem.spec(), workload.layers())) {
                if (std::int64_t{stages} * dp > slots) break;
                if (!may_fit(workload, stages, dp, workload.available(gpu))) continue;
                const auto bound = problem.micro_batches(dp) * whole / stages;
                shapes.push_back({{tp, stages, 1, dp}, bound, bound});
            }
        }
    }
    return sorted(std::move(shapes));
}

} // namespace spider::plan
