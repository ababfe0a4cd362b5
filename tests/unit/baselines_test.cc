// SPDX-License-Identifier: GPL-3.0-or-later
// The baselines do what they are said to do: against hand counts and every possibility of small cases.
#include "plan/baselines/genetic.h"
#include "plan/planner.h"

#include "plan_fixture.h"
#include "random_webs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace spider::plan {
namespace {

// One slot at each site; links of random length.
struct Small : Case {
    static Federation random_federation(unsigned seed, int sites) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> gbps(0.1, 10), ms(1, 100);
        std::vector<Site> all;
        std::vector<Link> links;
        for (int i = 0; i < sites; ++i)
            all.push_back(site("s" + std::to_string(i + 1), 1, 1));
        for (int i = 0; i < sites; ++i)
            for (int j = 0; j < sites; ++j)
                if (i != j) links.push_back({SiteId{i}, SiteId{j}, gbps(random), ms(random)});
        return *Federation::make(std::move(all), links);
    }
    static JobSpec small_job() {
        auto spec = job(gpt2(), 24, "");
        spec.tp = 1;
        return spec;
    }
    Small(unsigned seed, int sites) : Case(random_federation(seed, sites), small_job()) {}
};

// DT-FM's cost of groups in a given order, members matched in the best way: all ways are tried.
Seconds cost_by_hand(const Case &it, std::vector<int> slots, std::size_t stages, std::size_t members) {
    const auto &workload = it.problem.workload(1);
    const double gradient =
        workload.gradient(0, workload.layers() - 1) / static_cast<double>(stages * members);
    const double message = workload.boundary() * it.problem.micro_batches(static_cast<int>(members));
    const auto far = [&](int a, int b, double bytes) {
        const auto way = [&](int x, int y) {
            const auto link = *it.federation.link(SiteId{x}, SiteId{y});
            return std::pair(link.rtt_ms / 2000, 8e-9 / link.bandwidth_gbps);
        };
        const auto out = way(a, b), in = way(b, a);
        return std::max(out.first, in.first) + bytes * std::max(out.second, in.second);
    };
    Seconds reduce = 0, path = 0;
    for (std::size_t s = 0; s < stages; ++s)
        for (std::size_t i = 0; i < members; ++i) {
            Seconds sum = 0;
            for (std::size_t j = 0; j < members; ++j)
                if (i != j) sum += 2 * far(slots[s * members + i], slots[s * members + j], gradient);
            reduce = std::max(reduce, sum);
        }
    for (std::size_t s = 0; s + 1 < stages; ++s) {
        std::vector<std::size_t> partner(members);
        for (std::size_t i = 0; i < members; ++i)
            partner[i] = i;
        Seconds least = never;
        do {
            Seconds longest = 0;
            for (std::size_t i = 0; i < members; ++i)
                longest = std::max(
                    longest, far(slots[s * members + i], slots[(s + 1) * members + partner[i]], message));
            least = std::min(least, longest);
        } while (std::next_permutation(partner.begin(), partner.end()));
        path += least;
    }
    return reduce + 2 * path;
}

TEST(Genetic, FindsTheLeastOfItsOwnCostOnSmallCases) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        const Small it(seed, 6);
        for (const auto &[stages, members] :
             {std::pair(3, 2), std::pair(2, 3), std::pair(6, 1), std::pair(1, 6)}) {
            GeneticSearch search(it.problem, {1, stages, members, 1}, 1);
            const auto placed = search.run();
            ASSERT_EQ(placed.size(), 6u);
            EXPECT_EQ(search.evaluations(), GeneticSearch::candidates);
            std::vector<int> slots{0, 1, 2, 3, 4, 5};
            Seconds least = never;
            do
                least = std::min(least, cost_by_hand(it, slots, static_cast<std::size_t>(stages),
                                                     static_cast<std::size_t>(members)));
            while (std::next_permutation(slots.begin(), slots.end()));
            EXPECT_NEAR(search.cost(placed) / least, 1, 1e-9)
                << "seed " << seed << ", " << stages << " x " << members;
            EXPECT_NEAR(cost_by_hand(it, placed, static_cast<std::size_t>(stages),
                                     static_cast<std::size_t>(members)) /
                            least,
                        1, 1e-9)
                << "its stages are in that order";
        }
    }
}

TEST(Genetic, ItsMatchingIsTheBottleneckMatching) {
    const Small it(9, 10);
    GeneticSearch search(it.problem, {1, 2, 5, 1}, 1);
    std::vector<int> slots{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::mt19937 random(3);
    for (int round = 0; round < 20; ++round) {
        std::shuffle(slots.begin(), slots.end(), random);
        auto partner = search.match(slots.data(), slots.data() + 5).partner;
        std::sort(partner.begin(), partner.end());
        EXPECT_EQ(partner, (std::vector<std::size_t>{0, 1, 2, 3, 4})) << "everybody has one";
        EXPECT_NEAR(search.cost(slots) / cost_by_hand(it, slots, 2, 5), 1, 1e-9);
    }
}

TEST(Genetic, TheSameSeedGivesTheSamePlan) {
    const auto federation = Small::random_federation(5, 8);
    auto spec = Small::small_job();
    spec.pp = 4, spec.dp = 2;
    const auto plan = make_plan(federation, spec, {.seed = 7}, "genetic");
    auto again = make_plan(federation, spec, {.seed = 7}, "genetic");
    ASSERT_TRUE(plan && again);
    again->search.seconds = plan->search.seconds;
    EXPECT_EQ(*plan, *again);
    EXPECT_EQ(plan->search.planner, "genetic");
    EXPECT_EQ(plan->stages[0].depth, 4) << "P - i";
    EXPECT_EQ(plan->stages[3].depth, 1);
}

TEST(Rank, FillsStagesInTheOrderOfTheSites) {
    const auto federation = clique({site("s1", 1, 2), site("s2", 1, 4), site("s3", 1, 2)});
    auto spec = Small::small_job();
    spec.pp = 4, spec.dp = 2;
    const auto sites_of = [&](const JobSpec &job) {
        const auto plan = make_plan(federation, job, {}, "rank");
        EXPECT_TRUE(plan && plan->outcome == Outcome::planned) << (plan ? plan->reason : plan.error().what);
        std::map<Slot, std::string> sites;
        for (const auto &part : plan->parts)
            for (const auto &node : part.nodes)
                for (const auto &slot : node)
                    sites[slot] = part.site;
        std::string words;
        for (const auto &[slot, name] : sites)
            words += name + " ";
        return words;
    };
    EXPECT_EQ(sites_of(spec), "s1 s1 s2 s2 s2 s2 s3 s3 ");
    spec.sites = {"s3", "s2", "s1"};
    EXPECT_EQ(sites_of(spec), "s3 s3 s2 s2 s2 s2 s1 s1 ") << "as the user names them";
    const auto plan = make_plan(federation, spec, {}, "rank");
    EXPECT_EQ(plan->stages[0].last_layer - plan->stages[0].first_layer, 2) << "12 layers, evenly";
    EXPECT_EQ(plan->stages[3].first_layer, 9);
}

TEST(Baselines, AreNeverBetterThanEverything) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
        const auto federation = Small::random_federation(seed, 4);
        auto spec = Small::small_job();
        spec.pp = 4, spec.dp = 1, spec.depth = depth_stages;
        const auto best = make_plan(federation, spec, {}, "exhaustive");
        ASSERT_TRUE(best && best->outcome == Outcome::planned);
        for (const auto *name : {"rank", "genetic"}) {
            const auto plan = make_plan(federation, spec, {}, name);
            ASSERT_TRUE(plan && plan->outcome == Outcome::planned) << name;
            EXPECT_GE(plan->iteration.seconds, best->iteration.seconds * (1 - 1e-9)) << name;
        }
    }
}

TEST(Baselines, WhatDoesNotFitIsInfeasibleWithAReason) {
    const auto federation = clique({site("s1", 1, 1), site("s2", 1, 1)});
    auto spec = job(llama_70b(), 64, "");
    for (const auto *name : {"rank", "genetic"}) {
        const auto plan = make_plan(federation, spec, {}, name);
        ASSERT_TRUE(plan) << plan.error().what;
        EXPECT_EQ(plan->outcome, Outcome::infeasible);
        EXPECT_FALSE(plan->reason.empty());
    }
}

} // namespace
} // namespace spider::plan
