// SPDX-License-Identifier: GPL-3.0-or-later
// Against what the trainers' own code said, recorded by tests/oracle/record.py.
#include "launch/render.h"
#include "model/fields.h"
#include "util/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace spider::launch {
namespace {

Json recorded(const std::string &name) {
    auto json = model::read_json_file(std::string(SF_TEST_DATA) + "/trainers/" + name);
    EXPECT_TRUE(json) << json.error().what;
    return json ? model::at(*json, "cases") : Json::array();
}

int number(const Json &one, const char *key) { return one.at(key).get<int>(); }

using Groups = std::set<std::vector<int>>;
Groups groups(const Json &one, const char *key) {
    Groups all;
    for (const auto &group : one.at(key))
        all.insert(group.get<std::vector<int>>());
    return all;
}

// Ranks of each tensor, data and pipeline group by our formula.
struct Ours {
    Groups tp, dp, pp;
    std::vector<int> in_order; // stage by stage, in it pipeline by pipeline, in it by place in the slot
};

Ours ours(const Plan &plan) {
    Ours made;
    const auto rank = [&](int stage, int d, int t) { return rank_of(plan, {stage, d}, t); };
    for (int i = 0; i < plan.pp; ++i)
        for (int d = 0; d < plan.dp; ++d) {
            std::vector<int> group;
            for (int t = 0; t < plan.tp; ++t)
                group.push_back(rank(i, d, t)), made.in_order.push_back(rank(i, d, t));
            made.tp.insert(group);
        }
    for (int t = 0; t < plan.tp; ++t) {
        for (int i = 0; i < plan.pp; ++i) {
            std::vector<int> group;
            for (int d = 0; d < plan.dp; ++d)
                group.push_back(rank(i, d, t));
            made.dp.insert(group);
        }
        for (int d = 0; d < plan.dp; ++d) {
            std::vector<int> group;
            for (int i = 0; i < plan.pp; ++i)
                group.push_back(rank(i, d, t));
            made.pp.insert(group);
        }
    }
    return made;
}

TEST(Trainers, GiveEveryPlaceTheRankThatWeGiveIt) {
    const auto cases = recorded("ranks.json");
    ASSERT_GE(cases.size(), 30u);
    for (const auto &one : cases) {
        Plan plan;
        plan.tp = number(one, "tp"), plan.dp = number(one, "dp"), plan.pp = number(one, "pp");
        const auto made = ours(plan);
        EXPECT_EQ(groups(one, "megatron_tp_groups"), made.tp);
        EXPECT_EQ(groups(one, "megatron_dp_groups"), made.dp);
        EXPECT_EQ(groups(one, "megatron_pp_groups"), made.pp);
        EXPECT_EQ(one.at("deepspeed").get<std::vector<int>>(), made.in_order);
        EXPECT_EQ(one.at("torchtitan").get<std::vector<int>>(), made.in_order);
    }
}

// Megatron-LM read these layouts, and put so many layers on each stage: of such a plan comes the same layout.
TEST(Trainers, MegatronReadsOurLayoutsAsThePlansLayers) {
    int same = 0;
    for (const auto &one : recorded("megatron_layouts.json")) {
        const auto layout = one.at("layout").get<std::string>();
        if (!one.contains("stages") || one.at("chunks") != 1 || number(one, "pp") < 2 ||
            layout.find_first_of("*(,m") != std::string::npos)
            continue;
        const auto counts = one.at("stages").get<std::vector<int>>();
        if (*std::min_element(counts.begin(), counts.end()) < 1) continue;
        Plan plan;
        plan.pp = number(one, "pp"), plan.micro_batches = plan.pp;
        for (int i = 0, first = 0; i < plan.pp; first += counts[static_cast<std::size_t>(i++)])
            plan.stages.push_back({.first_layer = first,
                                   .last_layer = first + counts[static_cast<std::size_t>(i)] - 1,
                                   .depth = plan.pp - i,
                                   .ring = {},
                                   .faster = {}});
        plan.parts = {{"s1", "h100", {{}}}};
        for (int i = 0; i < plan.pp; ++i)
            plan.parts[0].nodes[0].push_back({i, 0});
        const auto launch = render(plan, Trainer::megatron).value();
        EXPECT_NE(util::join(launch.arguments, " ").find("--pipeline-model-parallel-layout " + layout),
                  std::string::npos)
            << layout;
        ++same;
    }
    EXPECT_GE(same, 10);
}

// What render() says of even plans: partition_method 'type:CLASS' gives every stage as many layers.
TEST(Trainers, DeepSpeedDividesEvenlyWhatDividesEvenly) {
    int even = 0;
    for (const auto &one : recorded("deepspeed_partitions.json")) {
        const int layers = number(one, "layers"), stages = number(one, "stages");
        if (layers % stages != 0) continue;
        EXPECT_EQ(one.at("layers_of_stages").get<std::vector<int>>(),
                  std::vector<int>(static_cast<std::size_t>(stages), layers / stages));
        ++even;
    }
    EXPECT_GE(even, 10);
}

} // namespace
} // namespace spider::launch
