// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/fields.h"
#include "plan/planner.h"
#include "plan/summary.h"

#include "plan_fixture.h"
#include "planned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <set>

namespace spider::plan {
namespace {

std::string refusal(const Federation &federation, const JobSpec &spec) {
    const auto plan = make_plan(federation, spec);
    if (!plan) return "error: " + plan.error().what;
    EXPECT_EQ(plan->outcome, Outcome::infeasible) << summary(*plan);
    EXPECT_TRUE(plan->parts.empty());
    return plan->reason;
}

std::vector<std::string> sites_of(const Plan &plan) {
    std::vector<std::string> names;
    for (const auto &part : plan.parts)
        names.push_back(part.site);
    return names;
}

using Names = std::vector<std::string>;

TEST(Plan, TwoEqualSitesShareTheLayersEvenly) {
    const auto plan = planned(clique({site("s1", 2, 2), site("s2", 2, 2)}), job(llama_13b()));
    EXPECT_EQ(sites_of(plan), (Names{"s1", "s2"}));
    EXPECT_EQ(world_size(plan), 8);
    EXPECT_LT(plan.iteration.seconds, 0.6 * plan.home_alone);
    EXPECT_GE(plan.iteration.seconds, plan.iteration.bound);
    EXPECT_EQ(plan.search.planner, "spin");
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            EXPECT_EQ(node.size(), part.nodes[0].size());
}

TEST(Plan, ASlowLinkKeepsTheJobAtHomeAndThePlanSaysSo) {
    auto spec = job(gpt2());
    const auto plan = planned(clique({site("s1", 2, 2), site("s2", 2, 2)}, 0.1, 100), spec);
    EXPECT_EQ(sites_of(plan), Names{"s1"});
    EXPECT_EQ(plan.home_alone, plan.iteration.seconds);
    EXPECT_EQ(plan.reason.find("home alone: "), 0u) << plan.reason;
    EXPECT_NE(plan.reason.find(" faster than the best plan over 2 sites"), std::string::npos) << plan.reason;
}

TEST(Plan, SitesThatTheUserNamesAreTakenEvenIfSlowerAndThePlanSaysSo) {
    auto spec = job(gpt2());
    spec.sites = {"s2", "s1"};
    const auto plan = planned(clique({site("s1", 2, 2), site("s2", 2, 2)}, 0.1, 100), spec);
    EXPECT_EQ(sites_of(plan), (Names{"s1", "s2"}));
    EXPECT_LT(plan.home_alone, plan.iteration.seconds);
    EXPECT_EQ(plan.reason.find("s1+s2, as asked: "), 0u) << plan.reason;
    EXPECT_NE(plan.reason.find(" slower than home alone"), std::string::npos) << plan.reason;
}

TEST(Plan, EveryNamedSiteHasAStageAndNoOther) {
    const auto federation = clique({site("s1", 1, 4), site("s2", 1, 4), site("s3", 1, 1), site("s4", 4, 8)});
    auto spec = job(llama_13b());
    spec.sites = {"s1", "s3", "s2"};
    const auto plan = planned(federation, spec);
    auto names = sites_of(plan);
    EXPECT_EQ(names.front(), "s1");
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (Names{"s1", "s2", "s3"}));
}

TEST(Plan, FixedSizesAreKeptAndGiveTheWorld) {
    auto spec = job(gpt2(), 8);
    spec.model.tied_embeddings = false; // which would draw first and last stage to one site
    spec.tp = 1, spec.pp = 4, spec.dp = 2, spec.sites = {"s1", "s2"};
    const auto plan = planned(clique({site("s1", 2, 2), site("s2", 2, 2)}), spec);
    EXPECT_EQ(plan.tp, 1);
    EXPECT_EQ(plan.pp, 4);
    EXPECT_EQ(plan.dp, 2);
    EXPECT_EQ(plan.micro_batches, 4);
    const std::vector<std::vector<Slot>> first{{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}},
        second{{{2, 0}, {2, 1}}, {{3, 0}, {3, 1}}};
    EXPECT_EQ(plan.parts[0].nodes, first);
    EXPECT_EQ(plan.parts[1].nodes, second);
}

TEST(Plan, AFasterSiteGetsMoreLayers) {
    auto spec = job(llama_13b());
    spec.tp = 1, spec.pp = 2, spec.dp = 1, spec.sites = {"s1", "s2"}, spec.recompute = Recompute::full;
    auto slow = site("s1", 1, 1, "a100"), fast = site("s2", 1, 1, "h100");
    slow.classes[0].gpu.memory = fast.classes[0].gpu.memory = 1e12;
    const auto plan = planned(clique({slow, fast}), spec);
    const auto layers = [&](const Part &part) {
        const auto &stage = plan.stages[static_cast<std::size_t>(part.nodes[0][0].stage)];
        return stage.last_layer - stage.first_layer + 1;
    };
    // By speed: 312 to 989.4 at the same efficiency, and the head is about one layer of the fast one's share.
    ASSERT_EQ(sites_of(plan), (Names{"s1", "s2"}));
    EXPECT_NEAR(layers(plan.parts[0]), 41 * 312 / (312 + 989.4), 1.0);
    EXPECT_EQ(layers(plan.parts[0]) + layers(plan.parts[1]), 40);
}

TEST(Plan, TheStageWithTheHeadGetsFewerLayers) {
    auto spec = job(llama_13b());
    spec.model.vocab = 256'000, spec.tp = 2, spec.pp = 4, spec.dp = 1;
    auto home = site("s1", 1, 8, "h200");
    const auto plan = planned(clique({home}), spec);
    const auto layers = [&](std::size_t i) {
        return plan.stages[i].last_layer - plan.stages[i].first_layer + 1;
    };
    EXPECT_LT(layers(3), layers(0));
}

TEST(Plan, LayersThatDoNotDivideAreNeitherLostNorMissing) {
    for (const auto &[layers, stages] :
         {std::pair(30, 4), std::pair(42, 16), std::pair(40, 16), std::pair(61, 8)}) {
        auto spec = job(llama_13b(), 256);
        spec.model.layers = layers, spec.pp = stages, spec.dp = 1;
        const auto plan = planned(clique({site("s1", 4, 8)}), spec);
        EXPECT_EQ(plan.stages.back().last_layer, layers - 1);
        for (const auto &stage : plan.stages)
            EXPECT_GE(stage.last_layer, stage.first_layer);
    }
}

TEST(Plan, TiedEmbeddingsAcrossALinkArePriced) {
    auto spec = job(gpt2());
    spec.sites = {"s1", "s2"}, spec.tp = 1, spec.pp = 2, spec.dp = 1;
    const auto federation = clique({site("s1", 1, 1), site("s2", 1, 1)});
    const auto term = [&](const Plan &plan) {
        for (const auto &one : plan.iteration.terms)
            if (one.name == "tied embedding") return one.seconds;
        return -1.0;
    };
    // One ring of two over 10 Gbit/s: each sends vocab x hidden x 4 bytes, and two latencies.
    EXPECT_NEAR(term(planned(federation, spec)), 50257.0 * 768 * 4 / 1.25e9 + 2 * 0.010, 1e-9);
    spec.model.tied_embeddings = false;
    EXPECT_EQ(term(planned(federation, spec)), 0);
}

TEST(Plan, TermsSumToTheIterationAndTokensFollow) {
    const auto plan = planned(clique({site("s1", 2, 2), site("s2", 2, 2)}), job(llama_13b()));
    double sum = 0;
    for (const auto &term : plan.iteration.terms)
        sum += term.seconds;
    EXPECT_NEAR(sum, plan.iteration.seconds, 1e-9);
    EXPECT_NEAR(plan.iteration.tokens_per_second, 64 * 4096 / plan.iteration.seconds, 1e-6);
}

TEST(Plan, TheThinLinkIsNamedAsTheBottleneck) {
    auto spec = job(llama_13b());
    spec.sites = {"s1", "s2"};
    const auto plan = planned(clique({site("s1", 1, 8), site("s2", 1, 8)}, 0.5, 5), spec);
    const auto &found = plan.iteration.bottleneck;
    EXPECT_EQ(found.kind, "link");
    EXPECT_EQ((std::set{found.from, found.to}), (std::set<std::string>{"s1", "s2"}));
}

TEST(Plan, LimitsHoldAtEachSite) {
    const auto federation = clique({site("s1", 4, 8), site("s2", 4, 8)});
    for (const auto &limits : {Limits{.max_nodes = 1}, Limits{.max_gpus_per_node = 4}, Limits{.max_tasks = 8},
                               Limits{
                                   .max_tasks_per_node = 2,
                               },
                               Limits{2, 4, 6, 4}}) {
        auto spec = job(llama_13b());
        spec.limits = limits;
        planned(federation, spec); // make_plan() asks check(), which counts again
    }
}

TEST(Plan, LimitsThatMakeItImpossibleAreNamedWithTheNumbers) {
    auto spec = job(llama_13b());
    spec.limits = {.max_nodes = 1, .max_gpus_per_node = 1};
    const auto federation = clique({site("s1", 2, 4), site("s2", 2, 4)});
    const auto why = refusal(federation, spec);
    EXPECT_EQ(
        why.find(
            "--nodes=1 --gres=gpu:1 leave 1 GPU at each site; the smallest plan for llama-13b needs 4 (tp="),
        0u)
        << why;
    EXPECT_NE(why.find(" GB per GPU of 80.0 GB)"), std::string::npos) << why;
    spec.limits = {.max_gpus_per_node = 4};
    EXPECT_GE(world_size(planned(federation, spec)), 4) << "and with that many it is planned";
}

TEST(Plan, AModelThatFitsNowhereSaysTheMemoryMissingPerGpuType) {
    auto spec = job(llama_70b());
    const auto why = refusal(clique({site("s1", 1, 2), site("s2", 1, 1, "t4")}), spec);
    EXPECT_EQ(why.find("h100: the smallest stage needs "), 0u) << why;
    EXPECT_NE(why.find(" GB per GPU, has 80.0 GB (tp="), std::string::npos) << why;
    EXPECT_NE(why.find("; t4: the smallest stage needs "), std::string::npos) << why;
    EXPECT_NE(why.find(", has 16.0 GB"), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
}

TEST(Plan, WhenRecomputationWouldFitTheReasonSaysSo) {
    auto spec = job(llama_13b());
    spec.micro_batch = 8, spec.tp = 1;
    const auto federation = clique({site("s1", 1, 5, "h100")});
    EXPECT_NE(refusal(federation, spec).find("; recompute=full would fit"), std::string::npos);
    spec.recompute = Recompute::full;
    planned(federation, spec);
}

TEST(Plan, UnusableSitesAreNotUsed) {
    auto stale = site("s2", 4, 8), drained = site("s3", 4, 8), off = site("s4", 4, 8),
         full = site("s5", 4, 8);
    stale.stale = true, stale.trouble = "HTTP 503";
    drained.state = SiteState::drain;
    off.state = SiteState::inactive;
    full.classes[0].free_nodes = 0;
    const auto federation = clique({site("s1", 1, 8), stale, drained, off, full});
    auto spec = job(llama_13b());
    EXPECT_EQ(sites_of(planned(federation, spec)), Names{"s1"});
    for (const auto &[name, why] :
         {std::pair("s2", "site s2 is stale: HTTP 503"), std::pair("s3", "site s3 is in state DRAIN"),
          std::pair("s4", "site s4 is in state INACTIVE"), std::pair("s5", "site s5 has no free GPU")}) {
        spec.sites = {"s1", name};
        EXPECT_EQ(refusal(federation, spec), why);
    }
    spec.sites = {}, spec.home = "s2";
    EXPECT_EQ(refusal(federation, spec), "home site s2 is stale: HTTP 503");
}

TEST(Plan, GpusOfAnUnknownTypeAreNotPlannedOn) {
    auto strange = site("s2", 1, 8);
    strange.classes[0].gpu = {.name = "npu9"};
    auto spec = job(llama_13b());
    EXPECT_EQ(sites_of(planned(clique({site("s1", 1, 8), strange}), spec)), Names{"s1"});
    spec.sites = {"s1", "s2"};
    EXPECT_EQ(refusal(clique({site("s1", 1, 8), strange}), spec),
              "site s2 has only GPUs of a type that is not known: 'npu9'");
}

TEST(Plan, LinksThatAreNotKnownAreNotCrossed) {
    const auto both = clique({site("s1", 2, 2), site("s2", 2, 2)});
    const auto one_way = *Federation::make(both.sites(), {{SiteId{0}, SiteId{1}, 100, 1}});
    auto spec = job(llama_13b());
    EXPECT_EQ(sites_of(planned(one_way, spec)), Names{"s1"});
    spec.sites = {"s1", "s2"};
    EXPECT_EQ(refusal(one_way, spec), "no link in both directions between s1 and s2");
    auto sites = both.sites();
    sites[1].routable = false;
    EXPECT_EQ(refusal(clique(sites), spec),
              "site s2 is not routable: it cannot take part in a plan over several sites");
    spec.sites = {};
    EXPECT_EQ(sites_of(planned(clique(sites), spec)), Names{"s1"});
    sites[1].routable = true, sites[0].routable = false;
    EXPECT_EQ(sites_of(planned(clique(sites), spec)), Names{"s1"}) << "at home it may run";
}

TEST(Plan, AChainOfSitesIsFollowed) {
    std::vector<Site> sites;
    for (const auto *name : {"s1", "s4", "s3", "s2"})
        sites.push_back(site(name, 1, 2));
    std::vector<Link> links;
    for (const auto &[a, b] : {std::pair(0, 3), std::pair(3, 2), std::pair(2, 1)})
        for (const auto &[from, to] : {std::pair(a, b), std::pair(b, a)})
            links.push_back({SiteId{from}, SiteId{to}, 100, 1});
    auto spec = job(llama_13b());
    const auto plan = planned(*Federation::make(sites, links), spec);
    EXPECT_EQ(sites_of(plan), (Names{"s1", "s2", "s3", "s4"}));
}

TEST(Plan, TooFewGpusForTheFixedSizesAreCounted) {
    auto spec = job(gpt2());
    spec.tp = 1, spec.pp = 4, spec.dp = 4;
    const auto federation = clique({site("s1", 1, 4), site("s2", 1, 2)});
    EXPECT_EQ(refusal(federation, spec), "tp=1 pp=4 dp=4 needs 16 GPUs; free: 4 GPUs at s1, 2 GPUs at s2");
    spec.pp = {}, spec.sites = {"s1", "s2"};
    EXPECT_EQ(world_size(planned(federation, spec)), 4) << "one stage, some of its members at s2";
    spec.dp = 8;
    EXPECT_EQ(refusal(federation, spec),
              "no pipeline with tp=1 dp=8 fits the sites, at least one stage at each of s1, "
              "s2; free: 4 GPUs at s1, 2 GPUs at s2");
}

TEST(Plan, SenselessJobsAreErrorsOfOneLine) {
    const auto federation = clique({site("s1", 1, 4), site("s2", 1, 4)});
    const auto error = [&](const std::function<void(JobSpec &)> &change) {
        auto spec = job(gpt2());
        change(spec);
        return refusal(federation, spec);
    };
    EXPECT_EQ(error([](JobSpec &spec) {
                  spec.sites = {"s1", "s9"};
              }),
              "error: sites: unknown site 's9'; sites: s1, s2");
    EXPECT_EQ(error([](JobSpec &spec) { spec.home = "s9"; }),
              "error: home: unknown site 's9'; sites: s1, s2");
    EXPECT_EQ(error([](JobSpec &spec) { spec.sites = {"s2"}; }),
              "error: sites: the home site s1 always takes part; use sites=s1+s2");
    EXPECT_EQ(error([](JobSpec &spec) { spec.pp = 13; }), "error: pp=13 is more than the model's 12 layers");
    EXPECT_EQ(error([](JobSpec &spec) {
                  spec.pp = spec.dp = 1, spec.sites = {"s1", "s2"};
              }),
              "error: pp=1 dp=1 leaves some of 2 sites without a stage");
    EXPECT_EQ(error([](JobSpec &spec) { spec.tp = 5; }),
              "error: tp=5 does not divide the model's 12 heads (12 for keys) and 3072 MLP columns");
    EXPECT_EQ(error([](JobSpec &spec) { spec.dp = 5; }),
              "error: gbs=64 does not divide into dp=5 pipelines of micro-batches of 1");
    EXPECT_EQ(error([](JobSpec &spec) { spec.micro_batch = 3; }), "error: gbs=64 is not a multiple of mbs=3");
    EXPECT_EQ(error([](JobSpec &spec) { spec.global_batch = 1'000'000'000; }),
              "error: gbs=1000000000, mbs=1: more than 1000000 micro-batches in an iteration");
    EXPECT_EQ(error([](JobSpec &spec) { spec.dp = -1; }), "error: tp, pp and dp must be at least 1");
    EXPECT_EQ(error([](JobSpec &spec) { spec.sequence = 0; }), "error: seq, gbs and mbs must be at least 1");
    EXPECT_EQ(make_plan(federation, job(gpt2()), {}, "magic")
                  .error()
                  .what.find("unknown planner 'magic'; planners: spin"),
              0u);
}

TEST(Plan, SameInputSamePlan) {
    int planned = 0;
    for (const auto &file : std::filesystem::directory_iterator(SF_TEST_DATA "/topologies")) {
        const auto federation = federation::read_federation(*model::read_json_file(file.path()));
        ASSERT_TRUE(federation) << file.path();
        const auto spec = job(llama_13b(), 1024, federation->sites().front().name);
        auto once = make_plan(*federation, spec), twice = make_plan(*federation, spec);
        ASSERT_TRUE(once && twice) << file.path();
        once->search.seconds = twice->search.seconds = 0;
        EXPECT_EQ(model::print_json(to_json(*once)), model::print_json(to_json(*twice))) << file.path();
        planned += once->outcome == Outcome::planned && once->search.evaluations > 0;
    }
    EXPECT_EQ(planned, 9) << "all but ibmcloud_rtt, which has no GPUs";
}

TEST(Plan, EveryPlanOfRandomFederationsPassesTheJudge) {
    std::mt19937 chance(2);
    const std::vector<const char *> gpus{"h100", "a100_40g", "v100", "l40s"};
    const auto pick = [&](int least, int most) {
        return least + static_cast<int>(chance() % static_cast<unsigned>(most - least + 1));
    };
    int good = 0;
    for (int round = 0; round < 150; ++round) {
        std::vector<Site> sites;
        for (int i = 0, n = pick(1, 10); i < n; ++i) {
            sites.push_back(site("s" + std::to_string(i + 1), pick(1, 4), pick(1, 8), gpus[chance() % 4]));
            sites.back().classes[0].free_nodes = pick(0, sites.back().classes[0].nodes);
            sites.back().routable = chance() % 8 != 0;
            if (chance() % 4 == 0)
                sites.back().classes.push_back(
                    {*model::gpu_type_named(gpus[chance() % 4]), 2, 2, 4, pick(0, 4)});
        }
        std::vector<Link> links;
        for (int i = 0; i < static_cast<int>(sites.size()); ++i)
            for (int j = 0; j < static_cast<int>(sites.size()); ++j)
                if (i != j && chance() % 4 != 0)
                    links.push_back({SiteId{i}, SiteId{j}, 0.1 * pick(1, 500), 1.0 * pick(0, 200)});
        const auto federation = Federation::make(sites, links);
        ASSERT_TRUE(federation);
        auto spec = job(chance() % 2 ? gpt2() : llama_13b(), 1 << pick(0, 8), chance() % 2 ? "s1" : "");
        if (chance() % 3 == 0) spec.recompute = Recompute::full;
        if (chance() % 3 == 0) spec.limits = {pick(0, 2), pick(0, 4), pick(0, 8), pick(0, 4)};
        if (chance() % 4 == 0) spec.dp = 1 << pick(0, 2);
        if (sites.size() > 1 && chance() % 3 == 0) spec.sites = {"s1", "s2"};
        const auto plan = make_plan(*federation, spec, {.budget = 0.02});
        if (!plan) {
            EXPECT_EQ(plan.error().what.find("planner"), std::string::npos) << plan.error().what;
            continue;
        }
        EXPECT_FALSE(plan->reason.empty());
        EXPECT_FALSE(summary(*plan).empty());
        EXPECT_EQ(table(*plan).back(), '\n');
        EXPECT_EQ(*model::plan_from_json(to_json(*plan)), *plan);
        if (plan->outcome != Outcome::planned) continue;
        const auto judged = check(*federation, spec, *plan);
        EXPECT_TRUE(judged) << judged.error().what;
        EXPECT_GE(plan->iteration.seconds, plan->iteration.bound * (1 - 1e-9));
        ++good;
    }
    EXPECT_GT(good, 60);
}

} // namespace
} // namespace spider::plan
