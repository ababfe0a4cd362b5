// SPDX-License-Identifier: GPL-3.0-or-later
// Random sites, links, jobs and webs, for the tests of prices, bounds and searches. The same seed, the same
// case.
#pragma once

#include "model/model_file.h"
#include "plan/field.h"
#include "plan/problem.h"
#include "plan/web.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace spider::plan {

// A problem with all that it borrows.
struct Case {
    Federation federation;
    JobSpec spec;
    Field field;
    Problem problem;

    Case(Federation sites, JobSpec job)
        : federation(std::move(sites)), spec(std::move(job)), field(field_of(federation, spec, spec.limits)),
          problem(federation, spec, field.pools, field.home) {}
    Case(const Case &) = delete;
    Case &operator=(const Case &) = delete;
};

class Chance {
  public:
    explicit Chance(unsigned seed) : random_(seed) {}

    int pick(int least, int most) {
        return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
    }
    bool one_in(int n) { return pick(1, n) == 1; }
    double spread(double least, double most) { // as many between 1 and 10 as between 10 and 100
        return least * std::pow(most / least, std::uniform_real_distribution<>(0, 1)(random_));
    }
    template <class T>
    const T &among(const std::vector<T> &some) {
        return some[static_cast<std::size_t>(pick(0, static_cast<int>(some.size()) - 1))];
    }

  private:
    std::mt19937 random_;
};

// Links of random width in each direction: between all pairs, or along a tree and some more.
inline std::vector<Link> random_links(Chance &chance, int sites, bool sparse) {
    std::vector<Link> links;
    for (int i = 1; i < sites; ++i) {
        const int parent = chance.pick(0, i - 1);
        for (int j = 0; j < i; ++j) {
            if (sparse && j != parent && !chance.one_in(4)) continue;
            const auto rtt_ms = chance.spread(1, 300);
            links.push_back({SiteId{i}, SiteId{j}, chance.spread(0.2, 20), rtt_ms});
            links.push_back({SiteId{j}, SiteId{i}, chance.spread(0.2, 20), rtt_ms});
        }
    }
    return links;
}

// Sites of whole nodes of 8 GPUs, for slots of 8.
inline std::vector<Site> random_sites(Chance &chance, int count, int most_slots,
                                      const std::vector<const char *> &gpus) {
    std::vector<Site> sites;
    for (int i = 0; i < count; ++i)
        sites.push_back(site("s" + std::to_string(i + 1), chance.pick(1, most_slots), 8, chance.among(gpus)));
    return sites;
}

inline ModelSpec model_of_file(const std::string &name) {
    const auto file = model::read_model_file(SF_TEST_DATA "/models/" + name + ".json");
    EXPECT_TRUE(file) << file.error().what;
    return file ? file->model : ModelSpec{};
}

// Without sizes but tp=8, with any depth rule and any sends.
inline JobSpec random_job(Chance &chance, const std::vector<ModelSpec> &models) {
    auto spec = job(chance.among(models), 32 << chance.pick(0, 2), "");
    spec.tp = 8;
    if (spec.model.costs) spec.sequence = 1;
    if (chance.one_in(2)) spec.depth = chance.one_in(4) ? chance.pick(2, 9) : depth_stages;
    if (chance.one_in(4)) spec.sends = Sends::blocking;
    return spec;
}

// Any cells that the sites have room for, any layers; empty cells: there is no room.
inline Web random_web(Chance &chance, const Problem &problem, const Shape &shape) {
    std::vector<int> slots;
    for (int i = 0; i < static_cast<int>(problem.size()); ++i)
        slots.insert(slots.end(), static_cast<std::size_t>(problem.slots(i, shape.tp) / shape.width), i);
    Web web{shape, {}, std::vector<int>(static_cast<std::size_t>(shape.stages), 1)};
    if (slots.size() < static_cast<std::size_t>(shape.cells())) return web;
    const bool near = chance.one_in(3); // few sites, neighbours together
    for (int i = 0; i < static_cast<int>(slots.size()) && !near; ++i)
        std::swap(slots[static_cast<std::size_t>(i)],
                  slots[static_cast<std::size_t>(chance.pick(i, static_cast<int>(slots.size()) - 1))]);
    web.cells.assign(slots.begin(), slots.begin() + shape.cells());
    for (int left = problem.workload(shape.tp).layers() - shape.stages; left > 0; --left)
        ++web.layers[static_cast<std::size_t>(chance.pick(0, shape.stages - 1))];
    return web;
}

} // namespace spider::plan
