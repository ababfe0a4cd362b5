// SPDX-License-Identifier: GPL-3.0-or-later
// What a plan weighs beside the web: starting now against waiting, and keeping activations against making
// them again.
#include "plan/planner.h"

#include "plan_fixture.h"
#include "planned.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spider::plan {
namespace {

// One node now; three more in an hour, which make an iteration almost four times as fast.
Federation busy() {
    auto one = site("s1", 4, 8);
    one.classes[0].free_nodes = 1;
    one.classes[0].later = {{3600, 4}};
    return clique({one});
}

TEST(Starts, AShortJobStartsNowAndALongOneWaits) {
    auto spec = job(llama_13b(), 256);
    spec.recompute = Recompute::full, spec.iterations = 1;
    const auto now = planned(busy(), spec);
    EXPECT_EQ(now.start, 0);
    EXPECT_LE(world_size(now), 8);
    spec.iterations = 100'000;
    const auto later = planned(busy(), spec);
    EXPECT_EQ(later.start, 3600);
    EXPECT_GT(world_size(later), 8);
    EXPECT_LT(3600 + 1e5 * later.iteration.seconds, 1e5 * now.iteration.seconds);
    const auto &others = later.alternatives;
    const auto other = std::find_if(others.begin(), others.end(),
                                    [](const Alternative &one) { return one.name == "starting now"; });
    ASSERT_NE(other, others.end()) << "the table says what starting now would cost";
    EXPECT_EQ(other->start, 0);
    EXPECT_NEAR(other->seconds, now.iteration.seconds, 0.05 * now.iteration.seconds);
}

TEST(Starts, TheLengthWhereWaitingBeginsToPayIsWhereBothEndTogether) {
    auto spec = job(llama_13b(), 256);
    spec.recompute = Recompute::full, spec.iterations = 1;
    const double now = planned(busy(), spec).iteration.seconds;
    spec.iterations = 100'000;
    const double later = planned(busy(), spec).iteration.seconds;
    const int even = static_cast<int>(3600 / (now - later));
    spec.iterations = even * 9 / 10;
    EXPECT_EQ(planned(busy(), spec).start, 0);
    spec.iterations = even * 11 / 10;
    EXPECT_EQ(planned(busy(), spec).start, 3600);
}

TEST(Starts, WithoutANumberOfIterationsTheFirstStartThatIsPossibleIsTaken) {
    auto spec = job(llama_13b(), 256);
    spec.recompute = Recompute::full;
    EXPECT_EQ(planned(busy(), spec).start, 0);
    auto full = busy().sites();
    full[0].classes[0].free_nodes = 0;
    EXPECT_EQ(planned(clique(full), spec).start, 3600);
}

TEST(Starts, ForThroughputTheFastestIterationIsWorthTheWait) {
    auto spec = job(llama_13b(), 256);
    spec.recompute = Recompute::full, spec.iterations = 1, spec.objective = Objective::throughput;
    EXPECT_EQ(planned(busy(), spec).start, 3600);
}

TEST(Recomputation, IsChosenWhereActivationsDoNotFitAndNowhereElse) {
    auto spec = job(llama_13b(), 64);
    spec.micro_batch = 8, spec.tp = 1;
    const auto tight = clique({site("s1", 1, 5)}), roomy = clique({site("s1", 1, 8, "mi355x")});
    EXPECT_EQ(make_plan(tight, spec)->outcome, Outcome::infeasible) << "none is not enough";
    spec.recompute_free = true;
    EXPECT_EQ(planned(tight, spec).recompute, Recompute::full);
    EXPECT_EQ(planned(roomy, spec).recompute, Recompute::none);
}

} // namespace
} // namespace spider::plan
