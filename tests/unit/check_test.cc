// SPDX-License-Identifier: GPL-3.0-or-later
// The judge alone: a plan written by hand passes; each way to break it is refused with the rule's words.
#include "plan/planner.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

namespace spider::plan {
namespace {

class Check : public testing::Test {
  protected:
    Federation federation = clique({site("s1", 2, 2), site("s2", 1, 4)});
    JobSpec spec = job(gpt2(), 8);
    Plan plan;

    Check() {
        plan.outcome = Outcome::planned;
        plan.tp = 1, plan.pp = 3, plan.dp = 2;
        plan.micro_batch = 1, plan.micro_batches = 4, plan.sequence = spec.sequence;
        plan.stages = {{.first_layer = 0, .last_layer = 3, .depth = 3},
                       {.first_layer = 4, .last_layer = 7, .depth = 2},
                       {.first_layer = 8, .last_layer = 11, .depth = 1}};
        plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}}},
                      {"s2", "h100", {{{2, 0}, {2, 1}}}}};
    }
    [[nodiscard]] std::string verdict() const {
        const auto judged = check(federation, spec, plan);
        return judged ? "good" : judged.error().what;
    }
    void set_site(std::size_t index, const Site &changed) {
        auto sites = federation.sites();
        sites[index] = changed;
        federation = clique(std::move(sites));
    }
};

TEST_F(Check, APlanWrittenByHandIsGood) { EXPECT_EQ(verdict(), "good"); }

TEST_F(Check, TrainerAndLauncherMustBeTheJobsAndAbleToRunIt) {
    plan.trainer = Trainer::megatron;
    EXPECT_EQ(verdict(), "trainer, launcher, sequence or single_gpu_view is not the job's");
    plan.trainer = spec.trainer = Trainer::plain;
    plan.launcher = spec.launcher = Launcher::torchrun;
    EXPECT_EQ(verdict(), "good");
    std::swap(plan.parts[0].nodes[0][1], plan.parts[0].nodes[1][0]); // 0.0 and 1.0 on one node
    EXPECT_EQ(verdict(), "site s1: a node's ranks are not consecutive, as torchrun would number them");
    plan.launcher = spec.launcher = Launcher::srun;
    EXPECT_EQ(verdict(), "good");
    plan.stages[0].last_layer = 4, plan.stages[1].first_layer = 5;
    EXPECT_EQ(verdict(), "good");
    spec.even_layers = true;
    EXPECT_EQ(verdict(), "the stages do not hold the same number of layers");
}

TEST_F(Check, ShapesMustBeTheJobs) {
    plan.outcome = Outcome::infeasible;
    EXPECT_EQ(verdict(), "the outcome is not 'planned'");
    plan.outcome = Outcome::planned, plan.pp = 4;
    EXPECT_EQ(verdict(), "pp=4 but 3 stages");
    plan.pp = 3, spec.dp = 1;
    EXPECT_EQ(verdict(), "tp, pp or dp is not what the job fixes");
    spec.dp = 2, plan.recompute = Recompute::full;
    EXPECT_EQ(verdict(), "recompute is not the job's");
}

TEST_F(Check, TheBatchMustDivide) {
    plan.micro_batches = 3;
    EXPECT_EQ(verdict(), "micro-batch x micro-batches x dp is 6, not the global batch 8");
    plan.micro_batches = 1 << 30, plan.dp = 1 << 30;
    EXPECT_NE(verdict(), "good");
}

TEST_F(Check, LayersMustBeCompleteAndNoStageEmpty) {
    plan.stages[1].first_layer = 5;
    EXPECT_EQ(verdict(), "stage 1 does not begin at layer 4");
    plan.stages[1].first_layer = 4, plan.stages[1].last_layer = 3;
    EXPECT_EQ(verdict(), "stage 1 has no layer");
    plan.stages[1].last_layer = 7, plan.stages[2].last_layer = 10;
    EXPECT_EQ(verdict(), "the stages hold 11 layers, the model has 12");
    plan.stages[2].last_layer = 2147483647;
    EXPECT_EQ(verdict(), "stage 2 ends after the model's last layer");
}

TEST_F(Check, DepthsMustNotRise) {
    plan.stages[2].depth = 3;
    EXPECT_EQ(verdict(), "stage 2 has depth 3, not between 1 and 2");
    plan.stages[2].depth = 0;
    EXPECT_EQ(verdict(), "stage 2 has depth 0, not between 1 and 2");
    plan.stages[2].depth = 1, plan.stages[0].depth = 5;
    EXPECT_EQ(verdict(), "stage 0 has depth 5, not between 1 and 4");
}

TEST_F(Check, SitesMustBeUsableAndTheJobs) {
    plan.parts[1].site = "s9";
    EXPECT_EQ(verdict(), "part at unknown site s9");
    plan.parts[1].site = "s1";
    EXPECT_EQ(verdict(), "two parts at site s1");
    plan.parts[1].site = "s2", spec.home = "s2";
    EXPECT_EQ(verdict(), "the first part is not at the home site s2");
    spec.home = "s1", spec.sites = {"s1"};
    EXPECT_EQ(verdict(), "the parts are not at exactly the sites that the job names");
    spec.sites = {"s2", "s1"};
    EXPECT_EQ(verdict(), "good");
    auto stale = federation.sites()[1];
    stale.stale = true;
    set_site(1, stale);
    EXPECT_EQ(verdict(), "site s2 is not usable");
    stale.stale = false, stale.state = SiteState::drain;
    set_site(1, stale);
    EXPECT_EQ(verdict(), "site s2 is not usable");
    stale.state = SiteState::active, stale.routable = false;
    set_site(1, stale);
    EXPECT_EQ(verdict(), "site s2 is not routable, the plan has other sites");
}

TEST_F(Check, EverySlotMustBeThereOnce) {
    plan.parts[1].nodes[0][1] = {2, 0};
    EXPECT_EQ(verdict(), "slot 2.0 is there twice");
    plan.parts[1].nodes[0].pop_back();
    EXPECT_EQ(verdict(), "5 slots, pp x dp is 6");
    plan.parts[1].nodes[0].push_back({2, 2});
    EXPECT_EQ(verdict(), "slot 2.2 is outside of pp and dp");
    plan.parts[1].nodes[0].back() = {-1, 0};
    EXPECT_EQ(verdict(), "slot -1.0 is outside of pp and dp");
}

TEST_F(Check, AStageAtSeveralSitesNeedsARingThroughThem) {
    plan.parts[1].nodes[0].back() = {1, 1}, plan.parts[0].nodes[1][1] = {2, 1};
    EXPECT_EQ(verdict(), "stage 1: its ring does not go through the sites of its members");
    plan.stages[1].ring = {"s1", "s2"};
    EXPECT_EQ(verdict(), "stage 2: its ring does not go through the sites of its members");
    for (const auto &wrong :
         {std::vector<std::string>{"s2"}, {"s1", "s1"}, {"s1", "s9"}, {"s1", "s2", "s1"}}) {
        plan.stages[2].ring = wrong;
        EXPECT_EQ(verdict(), "stage 2: its ring does not go through the sites of its members");
    }
    plan.stages[2].ring = {"s2", "s1"};
    EXPECT_EQ(verdict(), "good");
}

TEST_F(Check, EveryStepOfARingNeedsALinkBothWays) {
    // Four pipelines of one stage, one at each of four sites that are linked in a circle.
    std::vector<Site> sites;
    std::vector<Link> links;
    for (int i = 0; i < 4; ++i) {
        sites.push_back(site("s" + std::to_string(i + 1), 1, 1));
        for (const int next : {(i + 1) % 4, (i + 3) % 4})
            links.push_back({SiteId{i}, SiteId{next}, 10, 20});
    }
    federation = *Federation::make(sites, links);
    plan.pp = 1, plan.dp = 4, plan.micro_batches = 2;
    plan.stages = {{.first_layer = 0, .last_layer = 11, .depth = 1, .ring = {"s1", "s2", "s3", "s4"}}};
    plan.parts.clear();
    for (int i = 0; i < 4; ++i)
        plan.parts.push_back({"s" + std::to_string(i + 1), "h100", {{{0, i}}}});
    EXPECT_EQ(verdict(), "good");
    plan.stages[0].ring = {"s1", "s3", "s2", "s4"};
    EXPECT_EQ(verdict(), "stage 0: its ring has no link in both directions between s1 and s3");
    links.erase(links.begin()); // s1 to s2: one way is not enough
    federation = *Federation::make(sites, links);
    plan.stages[0].ring = {"s4", "s3", "s2", "s1"};
    EXPECT_EQ(verdict(), "stage 0: its ring has no link in both directions between s2 and s1");
}

TEST_F(Check, SlotsMustFitTheFreeGpus) {
    auto busy = federation.sites()[0];
    busy.classes[0].free_nodes = 1;
    set_site(0, busy);
    EXPECT_EQ(verdict(), "site s1: 2 nodes, free are 1 with h100 that tp=1 divides");
    busy.classes[0].free_nodes = 2, busy.classes[0].free_gpus_per_node = 1;
    set_site(0, busy);
    EXPECT_EQ(verdict(), "site s1: a node with 2 GPUs, free are 1");
    plan.parts[0].gpu = "a100";
    EXPECT_EQ(verdict(), "site s1: 2 nodes, free are 0 with a100 that tp=1 divides");
}

TEST_F(Check, LimitsHoldAtEachSite) {
    for (const auto &limits : {Limits{.max_nodes = 1}, Limits{.max_gpus_per_node = 1}, Limits{.max_tasks = 3},
                               Limits{.max_tasks_per_node = 1}}) {
        spec.limits = limits;
        EXPECT_EQ(verdict(), "site s1: the part is beyond the user's own limits");
    }
    spec.limits = {.max_nodes = 2, .max_gpus_per_node = 2, .max_tasks = 4, .max_tasks_per_node = 2};
    EXPECT_EQ(verdict(), "good");
}

TEST_F(Check, LinksMustExistBothWays) {
    federation = *Federation::make(federation.sites(), {{SiteId{0}, SiteId{1}, 10, 20}});
    EXPECT_EQ(verdict(), "stages 1 and 2 of pipeline 0: no link in both directions between s1 and s2");
}

TEST_F(Check, TiedEmbeddingsNeedALinkBetweenFirstAndLastStage) {
    auto sites = federation.sites();
    sites.push_back(site("s3", 1, 2));
    std::vector<Link> chain;
    for (const auto &[a, b] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 2), std::pair(2, 1)})
        chain.push_back({SiteId{a}, SiteId{b}, 10, 20});
    federation = *Federation::make(sites, chain);
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}}},
                  {"s2", "h100", {{{1, 0}, {1, 1}}}},
                  {"s3", "h100", {{{2, 0}, {2, 1}}}}};
    EXPECT_EQ(verdict(), "tied embeddings: no link in both directions between s1 and s3");
    spec.model.tied_embeddings = false;
    EXPECT_EQ(verdict(), "good");
}

TEST_F(Check, MemoryIsCountedAgainAndNotReadFromThePlan) {
    auto small = federation.sites()[1];
    small.classes[0].gpu.memory = 1e9;
    set_site(1, small);
    plan.stages[2].memory = 1;
    EXPECT_EQ(verdict().find("stage 2 needs "), 0u) << verdict();
    EXPECT_NE(verdict().find(" per GPU, h100 at s2 has 1.0 GB"), std::string::npos) << verdict();
}

TEST_F(Check, TensorSizeMustDivideTheModelAndTheNode) {
    plan.tp = 3, plan.pp = 1, plan.dp = 1, plan.micro_batches = 8;
    plan.stages = {{.first_layer = 0, .last_layer = 11, .depth = 1}};
    plan.parts = {{"s1", "h100", {{{0, 0}}}}};
    EXPECT_EQ(verdict(), "site s1: 1 nodes, free are 0 with h100 that tp=3 divides");
    spec.model.heads = spec.model.kv_heads = 7;
    plan.tp = 2;
    EXPECT_EQ(verdict(), "tp=2 does not divide the model's 7 heads (7 for keys) and 3072 MLP columns");
}

} // namespace
} // namespace spider::plan
