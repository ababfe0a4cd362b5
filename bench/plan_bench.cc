// SPDX-License-Identifier: GPL-3.0-or-later
// How long the planner's parts take: a move, the recurrence, an exact price, and whole plans as the
// federation doubles. bytes_peak is the greatest resident size of the process so far.
#include "model/gpu_table.h"
#include "plan/descent.h"
#include "plan/field.h"
#include "plan/planner.h"
#include "plan/spinsearch.h"
#include "plan/weave.h"

#include <benchmark/benchmark.h>

#include <sys/resource.h>

#include <cmath>
#include <random>

namespace spider::plan {
namespace {

// Sites on a square whose side takes 75 ms, with uplinks of 5 to 100 Gbit/s.
Federation synthetic(int sites, int gpus) {
    std::mt19937 chance(1);
    std::uniform_real_distribution<> real(0, 1);
    std::vector<Site> all;
    std::vector<std::pair<double, double>> places;
    std::vector<double> uplinks;
    const std::vector<const char *> types{"a100_40g", "a100", "h100"};
    for (int i = 0; i < sites; ++i) {
        Site site{.name = "s" + std::to_string(i)};
        site.classes = {{*model::gpu_type_named(types[chance() % types.size()]), gpus / 8, gpus / 8, 8, 8}};
        all.push_back(std::move(site));
        places.emplace_back(real(chance), real(chance));
        uplinks.push_back(5.0 * std::pow(20.0, real(chance)));
    }
    std::vector<Link> links;
    for (int i = 0; i < sites; ++i) {
        for (int j = 0; j < sites; ++j) {
            if (i == j) continue;
            const auto &[x, y] = places[static_cast<std::size_t>(i)];
            const auto &[u, v] = places[static_cast<std::size_t>(j)];
            const auto narrow =
                std::min(uplinks[static_cast<std::size_t>(i)], uplinks[static_cast<std::size_t>(j)]);
            links.push_back({SiteId{i}, SiteId{j}, narrow * (0.2 + 0.8 * real(chance)),
                             1 + 150 * std::hypot(x - u, y - v)});
        }
    }
    return *Federation::make(std::move(all), std::move(links));
}

JobSpec job() {
    JobSpec spec;
    spec.model = {"LlamaForCausalLM", 80, 8192, 28672, 64, 8, 128, 128256, 0, true, false};
    spec.sequence = 8192, spec.global_batch = 2048, spec.recompute = Recompute::full;
    return spec;
}

double bytes_peak() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) * 1024;
}

void recurrence(benchmark::State &state) {
    const auto stages = static_cast<std::size_t>(state.range(0));
    const int batches = static_cast<int>(state.range(1));
    const Pipeline pipeline{std::vector<StageTime>(stages, {0.012, 0.024}),
                            std::vector<Boundary>(stages - 1, {0.015, 0.0336, 0.015, 0.0336})};
    const auto depths = hiding_depths(pipeline, std::vector<int>(stages, batches));
    for (auto _ : state)
        benchmark::DoNotOptimize(stage_ends(pipeline, depths, batches));
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(stages) * batches);
}
BENCHMARK(recurrence)
    ->Args({4, 128})
    ->Args({8, 128})
    ->Args({8, 1024})
    ->Args({32, 1024})
    ->Unit(benchmark::kMicrosecond);

// A web of side x side cells, one slot at each of as many sites.
struct Woven {
    Federation federation;
    JobSpec spec = job();
    Field field;
    Problem problem;
    Crossings crossings;
    WebState web;
    explicit Woven(int side)
        : federation(synthetic(side * side, 8)), field(field_of(federation, spec, {})),
          problem(federation, spec, field.pools, field.home), web(problem, {8, side, side, 1}, crossings) {
        web.reset(weave(problem, web.web().shape, 0, Thread::radials));
    }
};

// An exchange of two cells and its undoing, G x P webs of one slot each.
void move(benchmark::State &state) {
    Woven it(static_cast<int>(state.range(0)));
    auto &web = it.web;
    std::mt19937 chance(1);
    const auto cells = static_cast<unsigned>(web.web().shape.cells());
    for (auto _ : state) {
        const auto a = static_cast<int>(chance() % cells), b = static_cast<int>(chance() % cells);
        if (a == b) continue;
        const auto &at = web.web().cells;
        const std::vector<Change> changes{{a, at[static_cast<std::size_t>(b)]},
                                          {b, at[static_cast<std::size_t>(a)]}};
        web.change(changes);
        benchmark::DoNotOptimize(web.value());
        web.undo();
    }
}
BENCHMARK(move)->DenseRange(2, 8, 2)->Unit(benchmark::kNanosecond);

void exact_price(benchmark::State &state) {
    const Woven it(static_cast<int>(state.range(0)));
    for (auto _ : state)
        benchmark::DoNotOptimize(price(it.problem, it.web.web()));
}
BENCHMARK(exact_price)->DenseRange(2, 8, 2)->Unit(benchmark::kMicrosecond);

// A whole plan by the default planner, its budget included: sites x 64 GPUs.
void whole_plan(benchmark::State &state) {
    const auto federation = synthetic(static_cast<int>(state.range(0)), 64);
    const auto spec = job();
    Plan plan;
    for (auto _ : state)
        plan = *make_plan(federation, spec, {.budget = 0.2, .seed = 1}, "spin");
    state.counters["iteration_s"] = plan.iteration.seconds;
    state.counters["evaluations"] = static_cast<double>(plan.search.evaluations);
    state.counters["bytes_peak"] =
        benchmark::Counter(bytes_peak(), benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
}
BENCHMARK(whole_plan)->RangeMultiplier(2)->Range(8, 1024)->Unit(benchmark::kMillisecond)->Iterations(3);

} // namespace
} // namespace spider::plan

BENCHMARK_MAIN();
