// SPDX-License-Identifier: GPL-3.0-or-later
// Whether a plan's own numbers give the time that it says, and what is said about it.
#include "plan/explain.h"
#include "plan/planner.h"
#include "plan/timeline.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace spider::plan {
namespace {

Site slow_site(const std::string &name, int nodes, int gpus) { return site(name, nodes, gpus, "a100"); }

struct Named {
    const char *what;
    Plan plan;
};

// One site, pipeline and data parallel over sites, members of several speeds, tied embeddings, blocking
// sends.
std::vector<Named> plans() {
    std::vector<Named> all;
    const auto add = [&](const char *what, const Federation &federation, JobSpec spec) {
        auto made = make_plan(federation, spec, {.budget = 0.02});
        ASSERT_TRUE(made && made->outcome == Outcome::planned) << what;
        all.push_back({what, *made});
    };
    add("one site", clique({site("s1", 1, 4)}), job(gpt2(), 16));
    auto spread = job(llama_13b());
    spread.sites = {"s1", "s2"}, spread.pp = 4;
    add("pipeline", clique({site("s1", 2, 4), slow_site("s2", 2, 4)}, 1, 80), spread);
    auto tied = job(gpt2(), 64);
    tied.sites = {"s1", "s2", "s3"}, tied.tp = 1, tied.pp = 4, tied.dp = 4;
    add("tied embeddings", clique({site("s1", 2, 4), slow_site("s2", 2, 4), site("s3", 2, 2)}, 2, 30), tied);
    tied.trainer = Trainer::megatron;
    add("blocking sends", clique({site("s1", 2, 4), slow_site("s2", 2, 4), site("s3", 2, 2)}, 2, 30), tied);
    return all;
}

TEST(Course, APlansOwnNumbersGiveItsTime) {
    for (const auto &[what, plan] : plans()) {
        const auto course = course_of(plan);
        ASSERT_TRUE(course) << what << ": " << course.error().what;
        EXPECT_NEAR(course->seconds(), plan.iteration.seconds, 1e-6 * plan.iteration.seconds) << what;
        EXPECT_TRUE(agrees(plan, *course)) << what;
        EXPECT_NE(explanation(plan, *course).find(": the same."), std::string::npos) << what;
    }
}

TEST(Course, ComesBackFromJson) {
    for (const auto &[what, plan] : plans()) {
        const auto text = model::print_json(model::to_json(plan));
        const auto read = model::plan_from_json(*model::parse_json(text));
        ASSERT_TRUE(read) << what;
        EXPECT_NEAR(course_of(*read)->seconds(), plan.iteration.seconds, 1e-6 * plan.iteration.seconds)
            << what;
    }
}

TEST(Course, AnAlteredPlanIsFoundOut) {
    for (const auto &[what, plan] : plans()) {
        auto faster = plan;
        faster.iteration.seconds *= 0.9;
        auto course = course_of(faster);
        EXPECT_FALSE(agrees(faster, *course)) << what;
        EXPECT_NE(explanation(faster, *course).find("NOT the same"), std::string::npos) << what;
        auto slower = plan;
        slower.stages[0].backward *= 2;
        course = course_of(slower);
        EXPECT_FALSE(agrees(slower, *course)) << what;
        auto reduced = plan;
        for (auto &stage : reduced.stages)
            stage.gradient += 1;
        EXPECT_NEAR(course_of(reduced)->seconds(), plan.iteration.seconds + 1, 1e-6) << what;
    }
}

TEST(Course, AHandWorkedPipelineOfTwoStages) {
    // Forward 1 s, backward 2 s, 1 s of latency each way, depths 2 and 1, two micro-batches:
    // stage 0: F0 0-1, F1 1-2; stage 1: F0 2-3, B0 3-5, F1 5-6, B1 6-8; stage 0: B0 6-8, B1 9-11.
    // All-reduce: 11 + 1 at stage 0, 8 + 5 = 13 at stage 1.
    Plan plan{.outcome = Outcome::planned, .reason = {}, .pp = 2, .micro_batches = 2, .family = {}};
    plan.stages = {{.first_layer = 0,
                    .last_layer = 0,
                    .depth = 2,
                    .forward = 1,
                    .backward = 2,
                    .gradient = 1,
                    .ring = {},
                    .faster = {}},
                   {.first_layer = 1,
                    .last_layer = 1,
                    .depth = 1,
                    .forward = 1,
                    .backward = 2,
                    .gradient = 5,
                    .ring = {},
                    .faster = {}}};
    plan.passages = {{0, 0, 1, 0, 1, 0}};
    plan.parts = {{"a", "h100", {{{0, 0}}}}, {"b", "h100", {{{1, 0}}}}};
    plan.iteration.seconds = 13;
    const auto course = course_of(plan);
    ASSERT_TRUE(course);
    EXPECT_EQ(course->ends, (std::vector<Seconds>{11, 8}));
    EXPECT_EQ(course->closing, 1);
    EXPECT_TRUE(agrees(plan, *course));
    const auto text = explanation(plan, *course);
    for (const auto *words : {"11 s + 1 s = 12 s, slack 1 s", "8 s + 5 s = 13 s, the last",
                              "stage 0 (layers 0-0, at a)", "1 s latency + 0 s occupancy"})
        EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
    // 12 s when the all-reduce of stage 1 takes 2.5 s; nothing else gets below that.
    const auto cure = best_cure(plan, *course);
    EXPECT_EQ(cure.what, "all-reduces twice as fast");
    EXPECT_NEAR(cure.seconds, 11.5, 1e-12);
}

TEST(Course, ContradictionsAreNamed) {
    const auto good = plans()[1].plan;
    const auto why = [&](auto change) {
        auto plan = good;
        change(plan);
        const auto course = course_of(plan);
        return course ? std::string("accepted") : course.error().what;
    };
    EXPECT_EQ(why([](Plan &plan) { plan.outcome = Outcome::infeasible, plan.reason = "why"; }),
              "plan: infeasible: why");
    EXPECT_NE(why([](Plan &plan) { plan.stages.pop_back(); }).find("3 stages"), std::string::npos);
    EXPECT_NE(why([](Plan &plan) { plan.passages.pop_back(); }).find("boundaries"), std::string::npos);
    EXPECT_NE(why([](Plan &plan) { plan.passages[1].stage = 7; }).find("boundaries[1]"), std::string::npos);
    EXPECT_NE(
        why([](Plan &plan) { plan.stages[1].depth = plan.stages[0].depth + 1; }).find("stages[1]: depth"),
        std::string::npos);
    EXPECT_NE(why([](Plan &plan) { plan.micro_batches = 2'000'000'000; }).find("cannot be followed"),
              std::string::npos);
    EXPECT_NE(why([](Plan &plan) { plan.parts[0].nodes[0][0].stage = 99; }).find("outside"),
              std::string::npos);
    EXPECT_NE(why([](Plan &plan) { plan.parts[0].nodes[0].pop_back(); }).find("slots for pp="),
              std::string::npos);
    EXPECT_NE(why([](Plan &plan) {
                  plan.parts.push_back({"x", "h100", {}});
              }).find("no slot"),
              std::string::npos);
}

TEST(Timeline, EndsWhereTheExactRecurrenceDoesAndNeverOverlaps) {
    std::mt19937_64 chance(7);
    const auto some = [&](double least, double most) {
        return std::uniform_real_distribution(least, most)(chance);
    };
    for (int n = 0; n < 300; ++n) {
        const auto stages = 1 + chance() % 7;
        const int batches = 1 + static_cast<int>(chance() % 20);
        Pipeline pipeline;
        std::vector<int> depths;
        for (std::size_t i = 0; i < stages; ++i) {
            pipeline.stages.push_back({some(0.1, 1), some(0.1, 2)});
            if (i + 1 < stages)
                pipeline.boundaries.push_back({some(0, 2), some(0, 1), some(0, 2), some(0, 1)});
            depths.push_back(1 + static_cast<int>(chance() % 12));
        }
        std::sort(depths.rbegin(), depths.rend());
        const auto ends = stage_ends(pipeline, depths, batches);
        const auto blocks = timeline(pipeline, depths, batches, batches, 0);
        ASSERT_EQ(blocks.size(), 2 * stages * static_cast<std::size_t>(batches));
        std::vector<Seconds> free(stages, 0);
        for (const auto &block : blocks) {
            auto &before = free[static_cast<std::size_t>(block.stage)];
            EXPECT_GE(block.begin, before);
            before = block.end;
        }
        for (std::size_t i = 0; i < stages; ++i)
            EXPECT_NEAR(free[i], ends[i], 1e-9);
    }
}

TEST(Timeline, KeepsOnlyWhatIsAskedFor) {
    const Pipeline pipeline{{{1, 2}, {1, 2}}, {{0, 0, 0, 0}}};
    for (const auto &block : timeline(pipeline, std::vector{2, 1}, 100, 3, 2))
        EXPECT_TRUE(block.micro_batch < 3 || block.micro_batch >= 98);
    EXPECT_EQ(timeline(pipeline, std::vector{2, 1}, 100, 3, 2).size(), 20u);
}

TEST(Cure, NamesWhatLowersTheTime) {
    for (const auto &[what, plan] : plans()) {
        const auto cure = best_cure(plan, *course_of(plan));
        EXPECT_TRUE(cure.what.empty() || cure.seconds < plan.iteration.seconds) << what;
    }
    auto spread = job(llama_13b());
    spread.sites = {"s1", "s2"}, spread.pp = 2, spread.dp = 1, spread.tp = 4, spread.depth = depth_stages;
    const auto plan = make_plan(clique({site("s1", 1, 4), site("s2", 1, 4)}, 0.05, 1), spread);
    ASSERT_TRUE(plan && plan->outcome == Outcome::planned);
    EXPECT_EQ(best_cure(*plan, *course_of(*plan)).what, "twice the bandwidth between s1 <-> s2");
}

} // namespace
} // namespace spider::plan
