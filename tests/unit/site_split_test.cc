// SPDX-License-Identifier: GPL-3.0-or-later
// The split inside a site: tiny cases by enumeration, then GLPK against dynamic programming.
#include "plan/split_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace spider::plan {
namespace {

using ilp::infinity;
using ilp::Outcome;

constexpr Seconds minute = 60;

struct Sizes {
    int stages, layers, classes, options;
};

class Chance {
  public:
    explicit Chance(std::uint64_t seed) : random_(seed) {}
    int whole(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
    double real(double least, double most) { return std::uniform_real_distribution(least, most)(random_); }

  private:
    std::mt19937_64 random_;
};

// Classes of different speed and memory; recomputation is slower and fits more layers; early stages hold more
// micro-batches and so fewer layers; the head makes the last stage slower. `noise`: times need not grow with
// the length, and some lengths do not fit for no reason.
SplitProblem site_like(Chance &chance, const Sizes &sizes, bool noise) {
    SplitProblem problem{sizes.stages, sizes.layers, {}, sizes.options, {}};
    const double head = chance.whole(0, 1) * chance.real(0, 4);
    const double depth = chance.whole(0, 2) * chance.real(0, 0.3);
    std::vector<double> speed, memory;
    for (int c = 0; c < sizes.classes; ++c) {
        problem.slots.push_back(chance.whole(0, sizes.stages + 1));
        speed.push_back(chance.real(0.5, 3)),
            memory.push_back(chance.real(0.6, 3) * sizes.layers / sizes.stages);
    }
    for (int s = 0; s < sizes.stages; ++s)
        for (std::size_t c = 0; c < speed.size(); ++c)
            for (int o = 0; o < sizes.options; ++o)
                for (int length = 1; length <= sizes.layers; ++length) {
                    const bool last = s == sizes.stages - 1;
                    const double held =
                        length * (1 + depth * (sizes.stages - 1 - s)) / (1 + o) + (last ? head / 4 : 0);
                    double time = (length * (1 + 0.3 * o) + (last ? head : 0)) / speed[c];
                    if (noise) time *= chance.real(0.8, 1.2);
                    if (held > memory[c] || (noise && chance.whole(0, 9) == 0)) time = infinity;
                    problem.seconds.push_back(time);
                }
    return problem;
}

// "" or the rule that is broken.
std::string trouble_with(const SplitProblem &problem, const Split &split) {
    const auto stages = static_cast<std::size_t>(problem.stages);
    if (split.lengths.size() != stages || split.classes.size() != stages || split.options.size() != stages)
        return "sizes";
    if (std::accumulate(split.lengths.begin(), split.lengths.end(), 0) != problem.layers) return "sum";
    std::vector<int> used(problem.slots.size());
    Seconds slowest = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        const int length = split.lengths[s], node_class = split.classes[s], option = split.options[s];
        if (length < 1) return "length";
        if (node_class < 0 || node_class >= problem.classes()) return "class";
        if (option < 0 || option >= problem.options) return "option";
        const auto c = static_cast<std::size_t>(node_class);
        if (++used[c] > problem.slots[c]) return "slots";
        slowest = std::max(slowest, problem.at(static_cast<int>(s), node_class, option, length));
    }
    return slowest == split.slowest && slowest < infinity ? "" : "slowest";
}

// Every choice of every stage, one after the other.
Seconds enumerate(const SplitProblem &problem, std::vector<int> slots, int stage, int left) {
    if (stage == problem.stages) return left == 0 ? 0 : infinity;
    Seconds best = infinity;
    for (int c = 0; c < problem.classes(); ++c) {
        auto rest = slots;
        if (--rest[static_cast<std::size_t>(c)] < 0) continue;
        for (int o = 0; o < problem.options; ++o)
            for (int length = 1; length <= left; ++length) {
                const auto others = enumerate(problem, rest, stage + 1, left - length);
                best = std::min(best, std::max(problem.at(stage, c, o, length), others));
            }
    }
    return best;
}

// One class, every layer `each` seconds.
SplitProblem plain(int stages, int layers, int slots, double each = 1) {
    SplitProblem problem{stages, layers, {slots}, 1, {}};
    for (int s = 0; s < stages; ++s)
        for (int length = 1; length <= layers; ++length)
            problem.seconds.push_back(each * length);
    return problem;
}

TEST(SplitExact, TinyCasesHaveTheOptimumOfAllSplits) {
    Chance chance(1);
    int infeasible = 0;
    for (int i = 0; i < 200; ++i) {
        const Sizes sizes{chance.whole(1, 4), chance.whole(1, 7), chance.whole(1, 3), chance.whole(1, 2)};
        const auto problem = site_like(chance, sizes, i % 2 == 1);
        const auto best = enumerate(problem, problem.slots, 0, problem.layers);
        const auto split = split_exact(problem);
        infeasible += best == infinity ? 1 : 0;
        ASSERT_EQ(split ? split->slowest : infinity, best) << "case " << i;
        if (!split) continue;
        EXPECT_EQ(trouble_with(problem, *split), "") << "case " << i;
    }
    EXPECT_GT(infeasible, 20);
    EXPECT_LT(infeasible, 180);
}

void compare(std::uint64_t seed, int cases, bool noise) {
    Chance chance(seed);
    const util::SystemClock clock;
    std::vector<double> milliseconds;
    int infeasible = 0, programs = 0;
    for (int i = 0; i < cases; ++i) {
        const Sizes sizes{chance.whole(1, 8), chance.whole(1, 40), chance.whole(1, 3), chance.whole(1, 3)};
        const auto problem = site_like(chance, sizes, noise);
        const auto start = clock.elapsed();
        const auto found = split_ilp(problem, infinity, minute);
        milliseconds.push_back(1e3 * (clock.elapsed() - start));
        const auto exact = split_exact(problem);
        infeasible += exact ? 0 : 1, programs += found.programs;
        ASSERT_EQ(found.outcome, exact ? Outcome::optimal : Outcome::infeasible)
            << "case " << i << found.trouble;
        ASSERT_EQ(found.split.has_value(), exact.has_value()) << "case " << i;
        if (!exact) continue;
        EXPECT_EQ(found.split->slowest, exact->slowest) << "case " << i;
        EXPECT_EQ(trouble_with(problem, *found.split), "") << "case " << i;
        EXPECT_EQ(trouble_with(problem, *exact), "") << "case " << i;
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    const auto at = [&](int percent) {
        return milliseconds[(milliseconds.size() - 1) * static_cast<std::size_t>(percent) / 100];
    };
    std::printf(
        "%d splits by GLPK, %d infeasible, %d programs; ms: median %.2f, 90%% %.2f, 99%% %.2f, most %.2f\n",
        cases, infeasible, programs, at(50), at(90), at(99), at(100));
    EXPECT_GT(infeasible, cases / 20);
    EXPECT_LT(infeasible, cases * 3 / 4);
}

TEST(SplitIlp, SitesWithMixedClassesHaveTheOptimumOfDynamicProgramming) { compare(2, 300, false); }

TEST(SplitIlp, TimesThatDoNotGrowWithTheLengthHaveItToo) { compare(3, 300, true); }

TEST(SplitIlp, EqualStagesShareEvenlyAndTheLastGivesWayToTheHead) {
    auto problem = plain(4, 10, 4);
    EXPECT_EQ(split_ilp(problem, infinity, minute).split->slowest, 3);
    for (int length = 1; length <= 10; ++length)
        problem.seconds[problem.index(3, 0, 0, length)] += 2.5;
    const auto split = *split_ilp(problem, infinity, minute).split;
    EXPECT_EQ(split.slowest, 3.5);
    EXPECT_EQ(split.lengths, (std::vector<int>{3, 3, 3, 1}));
}

TEST(SplitIlp, NothingSlowerThanTheIncumbentIsTaken) {
    const auto problem = plain(2, 6, 2);
    EXPECT_EQ(split_ilp(problem, 3, minute).outcome, Outcome::optimal);
    EXPECT_EQ(split_ilp(problem, 2.9, minute).outcome, Outcome::infeasible);
}

TEST(SplitIlp, ImpossibleSizesAreInfeasibleAndSenselessOnesErrors) {
    for (const auto &problem : {plain(3, 2, 3), plain(3, 6, 2), SplitProblem{2, 2, {}, 1, {}}}) {
        EXPECT_EQ(split_ilp(problem, infinity, minute).outcome, Outcome::infeasible);
        EXPECT_FALSE(split_exact(problem));
    }
    auto problem = plain(2, 4, 2);
    problem.seconds.pop_back();
    EXPECT_EQ(split_ilp(problem, infinity, minute).trouble, "a split needs 8 times, not 7");
    problem.seconds.push_back(std::nan(""));
    EXPECT_EQ(split_ilp(problem, infinity, minute).trouble, "a stage's time is negative or not a number");
    EXPECT_FALSE(split_exact(problem));
    EXPECT_EQ(split_ilp({}, infinity, minute).outcome, Outcome::error);
    EXPECT_EQ(split_ilp(plain(2, 4, -1), infinity, minute).outcome, Outcome::error);
}

TEST(SplitIlp, WithoutTimeNothingIsClaimed) {
    const auto result = split_ilp(plain(4, 10, 4), infinity, 0);
    EXPECT_EQ(result.outcome, Outcome::out_of_time);
    EXPECT_FALSE(result.split);
}

TEST(SplitIlp, TheSameProblemHasTheSameSplit) {
    Chance chance(4);
    for (int i = 0; i < 20; ++i) {
        const auto problem = site_like(chance, {6, 24, 3, 2}, i % 2 == 1);
        const auto one = split_ilp(problem, infinity, minute), two = split_ilp(problem, infinity, minute);
        ASSERT_EQ(one.split.has_value(), two.split.has_value());
        if (!one.split) continue;
        EXPECT_EQ(one.split->lengths, two.split->lengths);
        EXPECT_EQ(one.split->classes, two.split->classes);
    }
}

TEST(SplitCache, AProofIsFoundAgainUnderOtherIncumbents) {
    SplitCache cache;
    const auto outcome = [&](const SplitProblem &problem, Seconds incumbent) {
        return cache.split(problem, incumbent, minute).outcome;
    };
    const auto problem = plain(2, 6, 2);
    EXPECT_EQ(outcome(problem, 2), Outcome::infeasible);
    EXPECT_EQ(outcome(problem, 1), Outcome::infeasible);
    EXPECT_EQ(cache.hits(), 1);
    EXPECT_EQ(outcome(problem, 5), Outcome::optimal); // the first proof did not reach that far
    EXPECT_EQ(cache.hits(), 1);
    EXPECT_EQ(outcome(problem, infinity), Outcome::optimal);
    EXPECT_EQ(outcome(problem, 3), Outcome::optimal);
    EXPECT_EQ(outcome(problem, 2.5), Outcome::infeasible);
    EXPECT_EQ(cache.hits(), 4);
    EXPECT_EQ(cache.split(problem, infinity, minute).split->slowest, 3);
    for (const auto &other : {plain(2, 6, 3), plain(2, 6, 2, 2), plain(2, 7, 2), plain(3, 6, 3)})
        EXPECT_EQ(outcome(other, infinity), Outcome::optimal);
    EXPECT_EQ(cache.hits(), 5);
    EXPECT_EQ(cache.split(plain(4, 12, 4), infinity, 0).outcome, Outcome::out_of_time);
    EXPECT_EQ(outcome(plain(4, 12, 4), infinity), Outcome::optimal); // no proof, not kept
}

} // namespace
} // namespace spider::plan
