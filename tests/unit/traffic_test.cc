// SPDX-License-Identifier: GPL-3.0-or-later
// What a plan sends between sites, against a count of its messages one by one.
#include "plan/planner.h"
#include "plan/traffic.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <map>

namespace spider::plan {
namespace {

constexpr double boundary = 1000, gradient = 600; // bytes; of each layer

JobSpec priced(int layers) {
    JobSpec spec = job(llama_13b(), 12);
    spec.model = {};
    spec.model.layers = layers;
    spec.model.costs = ExplicitModel{.name = "counted",
                                     .times = {{.gpu = "", .forward = {0.01}, .backward = {0.02}}},
                                     .boundary = boundary,
                                     .gradient = {gradient},
                                     .state = {1},
                                     .activation = {1}};
    return spec;
}

using Counted = std::map<std::pair<std::string, std::string>, double>;

std::string place(const Plan &plan, int stage, int dp) {
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                if (slot == Slot{stage, dp}) return part.site;
    return "nowhere";
}

// Every message of every micro-batch, and every chunk of every step of each ring.
Counted count_of(const Plan &plan) {
    Counted counted;
    const auto send = [&](const std::string &from, const std::string &to, double bytes) {
        if (from != to) counted[{from, to}] += bytes;
    };
    for (int batch = 0; batch < plan.micro_batches; ++batch)
        for (int d = 0; d < plan.dp; ++d)
            for (int i = 0; i + 1 < plan.pp; ++i) {
                send(place(plan, i, d), place(plan, i + 1, d), boundary);
                send(place(plan, i + 1, d), place(plan, i, d), boundary);
            }
    for (const auto &stage : plan.stages) {
        const auto sites = stage.ring.size();
        const double chunk =
            gradient * (stage.last_layer - stage.first_layer + 1) / static_cast<double>(sites);
        for (const char *half : {"reduce-scatter", "all-gather"}) {
            (void)half;
            for (std::size_t step = 0; step + 1 < sites; ++step)
                for (std::size_t i = 0; i < sites; ++i)
                    send(stage.ring[i], stage.ring[(i + 1) % sites], chunk);
        }
    }
    return counted;
}

Plan planned(const JobSpec &spec, int sites) {
    std::vector<Site> all;
    for (int i = 0; i < sites; ++i)
        all.push_back(site("s" + std::to_string(i + 1), 1, 2));
    const auto plan = make_plan(clique(all, 1, 10), spec);
    EXPECT_TRUE(plan && plan->outcome == Outcome::planned) << (plan ? plan->reason : plan.error().what);
    return plan ? *plan : Plan{};
}

void expect_counted(const JobSpec &spec, const Plan &plan) {
    const auto found = traffic(spec, plan);
    const auto counted = count_of(plan);
    ASSERT_EQ(found.size(), counted.size());
    for (const auto &one : found)
        EXPECT_NEAR(one.bytes, counted.at({one.from, one.to}), 1e-6) << one.from << " -> " << one.to;
}

TEST(Traffic, EachMessageOfAPipelineIsCounted) {
    auto spec = priced(12);
    spec.tp = 1, spec.pp = 6, spec.dp = 1;
    const auto plan = planned(spec, 3);
    expect_counted(spec, plan);
    EXPECT_EQ(traffic(spec, plan).size(), 4u); // two crossings, both ways
}

TEST(Traffic, EachChunkOfARingIsCounted) {
    auto spec = priced(4);
    spec.tp = 1, spec.pp = 1, spec.dp = 6;
    const auto plan = planned(spec, 3);
    expect_counted(spec, plan);
    EXPECT_EQ(traffic(spec, plan).size(), 3u);
}

TEST(Traffic, PipelinesAndRingsTogether) {
    auto spec = priced(8);
    spec.tp = 1, spec.pp = 2, spec.dp = 4;
    expect_counted(spec, planned(spec, 4));
}

TEST(Traffic, ATiedEmbeddingGoesBothWays) {
    auto spec = job(gpt2());
    spec.tp = 2, spec.pp = 2, spec.dp = 1;
    const auto plan = planned(spec, 2);
    spec.model.tied_embeddings = false;
    const auto without = traffic(spec, plan);
    spec.model.tied_embeddings = true;
    const auto with = traffic(spec, plan);
    ASSERT_EQ(with.size(), 2u);
    ASSERT_EQ(without.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
        EXPECT_DOUBLE_EQ(with[i].bytes - without[i].bytes, 50257.0 * 768 * 4); // fp32, all the matrix
}

TEST(Traffic, OneSiteSendsNothing) {
    auto spec = priced(4);
    spec.tp = 1, spec.pp = 2, spec.dp = 1;
    EXPECT_TRUE(traffic(spec, planned(spec, 1)).empty());
}

TEST(Traffic, TheMeanIsBitsOverSeconds) {
    EXPECT_DOUBLE_EQ(average_gbps(1e9, 4), 2);
    EXPECT_EQ(average_gbps(1e9, 0), 0);
}

} // namespace
} // namespace spider::plan
