// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin's hooks, called as sbatch and salloc call them. Each case runs in a child of its own; those of
// steps: spank_steps_test.cc.
#include "fake_spank.h"
#include "spank_start.h"

#include "spank/carriers.h"
#include "spank/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unistd.h>

namespace spider::spank {
namespace {

// Notes each call in the file `log`, and answers as `plan` and `place` say.
std::string helper(const Scratch &scratch, const std::string &plan, const std::string &place = "") {
    return "helper=" + scratch.script("helper", "echo \"$*\" >>" + scratch.path("log") + "\ncat >>" +
                                                    scratch.path("log") + "\ncase $2 in\nplan) " + plan +
                                                    ";;\nplace) " + place + ";;\nesac\n");
}

constexpr const char *good_plan =
    "echo 'say 2 stages'; echo 'id s1-17'; echo 'option nodes 2'; echo 'option hold'; "
    "echo 'option comment mine spiderflow=s1-17/1'; echo 'env SLURM_SPIDERFLOW_DP 2'";

Outcome sbatch(const std::string &helper, const std::function<void(spank_handle &)> &after,
               const char *spec = "model=x") {
    return in_child([&] {
        ::setenv("SLURM_RESTART_COUNT", "3", 1);
        fake().context = S_CTX_ALLOCATOR;
        fake().options.insert({{"comment", "mine"}, {"time", "5:00"}});
        spank_handle spank;
        start(spank, {helper}, spec);
        after(spank);
    });
}

TEST(Sbatch, SetsThePlansOptionsAndEnvironmentAndHasItPlacedAtTheEnd) {
    const Scratch scratch;
    const auto outcome = sbatch(helper(scratch, good_plan, "echo 'say placed'"), [](spank_handle &spank) {
        EXPECT_EQ(fake().options["nodes"], "2");
        EXPECT_EQ(fake().options["comment"], "mine spiderflow=s1-17/1");
        EXPECT_TRUE(fake().options.contains("hold"));
        EXPECT_TRUE(fake().options.contains("requeue"));
        EXPECT_STREQ(std::getenv("SLURM_SPIDERFLOW_DP"), "2");
        EXPECT_EQ(std::getenv("SLURM_RESTART_COUNT"), nullptr); // of the job around it
        std::printf("Submitted batch job 1\n");
        slurm_spank_exit(&spank, 0, nullptr);
        slurm_spank_exit(&spank, 0, nullptr); // listed twice: placed once
        if (testing::Test::HasFailure()) ::_exit(99);
    });
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_EQ(outcome.out, "Submitted batch job 1\n");
    EXPECT_EQ(outcome.err, "spiderflow: 2 stages\nspiderflow: placed\n");
    EXPECT_EQ(scratch.text("log"), "hook plan\nspec model=x\noption comment mine\noption time 5:00\n"
                                   "hook place s1-17\n");
}

// What Slurm 22.05 answers: the one that counts, for either spelling.
TEST(Sbatch, TellsWhatMeansTheWholeJobAndOfRequeueTheSpellingThatCounts) {
    const Scratch scratch;
    const auto with = helper(scratch, good_plan);
    const auto outcome = in_child([&] {
        fake().context = S_CTX_ALLOCATOR;
        fake().options = {{"hold", "set"},
                          {"begin", "2026-12-01T04:00:00"},
                          {"nice", "100"},
                          {"deadline", "2026-12-02T04:00:00"},
                          {"dependency", "after:1"},
                          {"requeue", "no-requeue"},
                          {"no-requeue", "no-requeue"}};
        spank_handle spank;
        start(spank, {with}, "");
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(scratch.text("log"),
              "hook plan\nspec\noption begin 2026-12-01T04:00:00\noption deadline 2026-12-02T04:00:00\n"
              "option dependency after:1\noption hold set\noption nice 100\noption no-requeue no-requeue\n");
}

TEST(Sbatch, FailsWithOneLineWhenThereIsNoPlan) {
    const Scratch scratch;
    const auto never = [](spank_handle &) { std::printf("submitted"); };
    const std::pair<std::string, std::string> cases[] = {
        {helper(scratch, "echo 'fail no such site: s9'; exit 1"), "spiderflow: no such site: s9\n"},
        {"helper=/nonexistent/x", "spiderflow: helper: /nonexistent/x: No such file or directory\n"},
    };
    for (const auto &[with, line] : cases) {
        const auto outcome = sbatch(with, never);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, line);
        EXPECT_EQ(outcome.out, "");
    }
}

TEST(Sbatch, FailsWhenThePlacingIsRefusedAndKeepsWhatItPrinted) {
    const Scratch scratch;
    const auto outcome = sbatch(helper(scratch, good_plan, "echo 'fail site s2: no such partition'; exit 1"),
                                [](spank_handle &spank) {
                                    std::printf("Submitted batch job 1\n");
                                    slurm_spank_exit(&spank, 0, nullptr);
                                });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "Submitted batch job 1\n");
    EXPECT_EQ(outcome.err, "spiderflow: 2 stages\nspiderflow: site s2: no such partition\n");
}

TEST(Sbatch, WithTestOnlyDropsThePlan) {
    const Scratch scratch;
    const auto with = helper(scratch, good_plan);
    const auto outcome = in_child([&] {
        fake().context = S_CTX_ALLOCATOR;
        fake().options["test-only"] = "set";
        spank_handle spank;
        start(spank, {with}, "");
        slurm_spank_exit(&spank, 0, nullptr);
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(scratch.text("log"), "hook plan\nspec\ntest-only\nhook drop s1-17\n");
}

TEST(Sbatch, DropsThePlanWhenSlurmRefusesOneOfItsOptions) {
    const Scratch scratch;
    const auto with = helper(scratch, good_plan);
    const auto outcome = in_child([&] {
        fake().context = S_CTX_ALLOCATOR;
        fake().refused = {"nodes"};
        spank_handle spank;
        start(spank, {with}, "");
    });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "spiderflow: 2 stages\nspiderflow: sbatch refuses --nodes=2 of the plan\n");
    EXPECT_NE(scratch.text("log").find("hook drop s1-17"), std::string::npos);
}

TEST(Sbatch, RefusesTheSecondComponentOfAHeterogeneousJob) {
    const Scratch scratch;
    const auto outcome = sbatch(helper(scratch, good_plan),
                                [](spank_handle &spank) { slurm_spank_init_post_opt(&spank, 0, nullptr); });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("a heterogeneous job cannot be federated"), std::string::npos);
    EXPECT_NE(scratch.text("log").find("hook drop s1-17"), std::string::npos);
}

// awsome-distributed-ai#1207: one plugin in two includes.
TEST(Sbatch, ThatLoadsThePluginTwicePlansOnceAndIsSilentAboutIt) {
    const Scratch scratch;
    const auto with = helper(scratch, good_plan);
    const auto outcome = in_child([&] {
        fake().context = S_CTX_ALLOCATOR;
        spank_handle spank;
        start(spank, {with}, "", 2);
        if (fake().registered.size() != 1) ::_exit(9);
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "spiderflow: 2 stages\n");
    EXPECT_EQ(scratch.text("log"), "hook plan\nspec\n");
}

TEST(Sbatch, WithoutTheOptionOrWithOffCallsNobody) {
    const Scratch scratch;
    ::setenv("SLURM_SPIDERFLOW", "off", 1); // what a bare --spiderflow takes
    for (const char *spec : {static_cast<const char *>(nullptr), "off", ""}) {
        const auto exit = [](spank_handle &spank) { slurm_spank_exit(&spank, 0, nullptr); };
        const auto outcome = sbatch(helper(scratch, good_plan), exit, spec);
        EXPECT_EQ(outcome.status, 0);
        EXPECT_EQ(outcome.err + scratch.text("log"), "");
    }
    ::unsetenv("SLURM_SPIDERFLOW");
}

TEST(Sbatch, OfASlurmWithoutTheOptionTableNamesTheOtherCommand) {
    const auto outcome = in_child([] {
        fake().context = S_CTX_ALLOCATOR;
        fake().has_option_table = false;
        spank_handle spank;
        start(spank, {}, "model=x");
    });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("`spiderflow submit`"), std::string::npos);
}

void carry() {
    ::setenv(carrier::job, "s1-17", 1);
    ::setenv(carrier::slots, "0.0", 1);
    ::setenv(option_variable, "model=x", 1);
    ::setenv("SLURM_SPIDERFLOW", "gbs=8", 1); // the user's default SPEC, no carrier
    ::setenv(carrier::local_job, "12", 1);
}

TEST(Sbatch, FromInsideAFederatedJobIsNotAPartOfIt) {
    const auto outcome = in_child([] {
        carry();
        fake().context = S_CTX_ALLOCATOR;
        spank_handle spank;
        start(spank, {});
        for (const char *name : {carrier::job, carrier::slots, carrier::local_job, option_variable})
            if (std::getenv(name) != nullptr) std::printf("%s\n", name);
        if (std::getenv("SLURM_SPIDERFLOW") == nullptr) std::printf("SLURM_SPIDERFLOW is lost\n");
    });
    EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(Sbatch, OfSpiderflowSubmitKeepsItsCarriersAndPlansNothing) {
    const auto outcome = in_child([] {
        carry();
        ::setenv(carrier::submit, "s1-17", 1);
        fake().context = S_CTX_ALLOCATOR;
        spank_handle spank;
        start(spank, {"helper=/nonexistent/x"}, "model=x"); // as #SBATCH --spiderflow= gives it
        if (std::getenv(carrier::job) == nullptr) std::printf("lost\n");
        if (std::getenv(carrier::local_job) != nullptr) std::printf("the outer job's word is kept\n");
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(Salloc, AndSrunOutsideAFederatedJobRefuseTheOptionInOneLine) {
    for (const bool salloc : {true, false}) {
        const auto outcome = in_child([salloc] {
            fake().context = salloc ? S_CTX_ALLOCATOR : S_CTX_LOCAL;
            fake().is_salloc = salloc;
            spank_handle spank;
            start(spank, {}, "model=x");
        });
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err.find("spiderflow: --spiderflow works with sbatch only"), 0u) << outcome.err;
        EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1);
    }
}

} // namespace
} // namespace spider::spank
