// SPDX-License-Identifier: GPL-3.0-or-later
// What each freedom of the planner brings, on measured links between cloud regions: the placement alone,
// layers that are moved, depths that hide the links, and P and D. argv[1]: the folder of tests/data; argv[2]:
// seconds of budget.
#include "model/fields.h"
#include "model/model_file.h"
#include "plan/field.h"
#include "plan/spinsearch.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace spider::bench {
namespace {

struct Freedom {
    const char *name;
    int depth;
    bool layers, shape;
};
constexpr std::array freedoms{
    Freedom{"sites of the cells (D x P fixed, even layers, depth P-i)", depth_stages, false, false},
    Freedom{"+ layers moved between stages", depth_stages, true, false},
    Freedom{"sites and depths that hide the links, even layers", depth_fitted, false, false},
    Freedom{"+ layers moved", depth_fitted, true, false},
    Freedom{"+ any P and D, sites left out", depth_fitted, true, true},
};

struct Case {
    const char *topology;
    int dp, pp;
};
constexpr std::array cases{Case{"skyplane_8", 2, 4}, Case{"skyplane_16", 4, 4}, Case{"skyplane_64", 8, 8}};

struct Cell {
    Seconds seconds = 0;
    int dp = 0, pp = 0;
};

Cell planned(const std::string &data, const Case &which, const Freedom &freedom, Seconds budget) {
    const auto json = model::read_json_file(data + "/topologies/" + which.topology + ".json");
    const auto federation = federation::read_federation(*json);
    JobSpec spec;
    spec.model = model::read_model_file(data + "/models/bench-13b.json")->model;
    spec.sequence = 1, spec.global_batch = 1024, spec.tp = 8;
    spec.depth = freedom.depth, spec.sends = Sends::async;
    if (!freedom.shape) spec.dp = which.dp, spec.pp = which.pp;
    const auto field = plan::field_of(*federation, spec, {});
    const plan::Problem problem(*federation, spec, field.pools, field.home);
    plan::SpinSearch search(problem, budget, 1, freedom.layers);
    search.run();
    Cell best{plan::never, 0, 0};
    for (std::size_t i = 0; i < plan::families; ++i) {
        const auto &found = search.best(static_cast<plan::Family>(i));
        if (found && found->seconds() < best.seconds)
            best = {found->seconds(), found->web.shape.dp(), found->web.shape.stages};
    }
    return best;
}

} // namespace
} // namespace spider::bench

int main(int argc, char **argv) {
    using namespace spider::bench;
    if (argc < 2) return std::fputs("usage: freedoms TESTS-DATA [SECONDS]\n", stderr), 2;
    const double budget = argc > 2 ? std::atof(argv[2]) : 1;
    std::printf("Seconds of an iteration (D x P), the 13B model, 1024 sequences, TP 8; budget %.3g s\n\n",
                budget);
    std::printf("| free |");
    for (const auto &one : cases)
        std::printf(" %s |", one.topology);
    std::printf("\n|---|---:|---:|---:|\n");
    for (const auto &freedom : freedoms) {
        std::printf("| %s |", freedom.name);
        for (const auto &one : cases) {
            const auto cell = planned(argv[1], one, freedom, budget);
            std::printf(" %.1f (%d x %d) |", cell.seconds, cell.dp, cell.pp);
        }
        std::printf("\n");
    }
}
