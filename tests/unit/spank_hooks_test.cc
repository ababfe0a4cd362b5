// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin's hooks, called as sbatch, srun and slurmstepd call them. Each case runs in a child of its own.
#include "fake_spank.h"

#include "spank/carriers.h"
#include "spank/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unistd.h>

namespace spider::spank {
namespace {

constexpr std::uint32_t batch_step = 4294967291u;

// Slurm's calls up to the options: init, the option's callback, init_post_opt. `times`: lines in
// plugstack.conf.
void start(spank_handle &spank, std::vector<std::string> arguments, const char *spec = nullptr,
           int times = 1) {
    std::vector<char *> words;
    for (auto &word : arguments)
        words.push_back(word.data());
    const auto count = static_cast<int>(words.size());
    for (int i = 0; i < times; ++i)
        EXPECT_EQ(slurm_spank_init(&spank, count, words.data()), 0);
    if (spec != nullptr) {
        EXPECT_EQ(fake().registered.at(0).cb(0, spec, 0), 0);
    }
    for (int i = 0; i < times; ++i)
        EXPECT_EQ(slurm_spank_init_post_opt(&spank, count, words.data()), 0);
}

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
        EXPECT_TRUE(fake().options.contains("no-requeue"));
        EXPECT_STREQ(std::getenv("SLURM_SPIDERFLOW_DP"), "2");
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

const std::map<std::string, std::string> part{{carrier::job, "s1-17"},
                                              {carrier::attempt, "1"},
                                              {carrier::site, "s1"},
                                              {carrier::world, "4"},
                                              {carrier::tp, "1"},
                                              {carrier::pp, "2"},
                                              {carrier::dp, "2"},
                                              {carrier::slots, "0.0/1.0,1.1"},
                                              {carrier::layers, "0-3,4-7"},
                                              {carrier::node_ranks, "0,1"},
                                              {carrier::nnodes, "2"},
                                              {carrier::depths, "2,1"},
                                              {carrier::micro_batch, "1"},
                                              {carrier::micro_batches, "4"},
                                              {carrier::local_job, "12"},
                                              {carrier::master, "127.0.0.1/29501"},
                                              {"SLURM_JOB_NODELIST", "n[1-2]"},
                                              {"SLURM_JOB_ID", "12"}};

std::map<std::string, std::string> srun(const std::map<std::string, std::string> &typed, const char *spec) {
    const auto outcome = in_child([&] {
        for (const auto &[name, value] : part)
            ::setenv(name.c_str(), value.c_str(), 1);
        fake().context = S_CTX_LOCAL;
        fake().options = typed;
        spank_handle spank;
        start(spank, {}, spec);
        for (const auto &[name, value] : fake().options)
            std::printf("%s\n%s\n", name.c_str(), value.c_str());
    });
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, std::string> options;
    std::string line, name;
    for (const char c : outcome.out) {
        if (c != '\n') {
            line += c;
            continue;
        }
        if (name.empty())
            name = std::exchange(line, {});
        else
            options[std::exchange(name, {})] = std::exchange(line, {});
    }
    return options;
}

TEST(Srun, InAFederatedJobTakesThePlansShape) {
    auto options = srun({{"nodes", "2"}}, "model=x");
    EXPECT_EQ(options["ntasks"], "3");
    EXPECT_EQ(options["distribution"], "arbitrary");
    EXPECT_EQ(options["nodelist"], "n1,n2,n2");
    EXPECT_EQ(options["kill-on-bad-exit"], "1");
    EXPECT_EQ(srun({{"kill-on-bad-exit", "0"}}, nullptr)["kill-on-bad-exit"], "0");
}

TEST(Srun, KeepsTheUsersOwnGeometryAndWithOffEverything) {
    EXPECT_FALSE(srun({{"ntasks", "1"}}, nullptr).contains("nodelist"));
    EXPECT_EQ(srun({{"relative", "1"}}, nullptr).count("ntasks"), 0u);
    EXPECT_TRUE(srun({}, "off").empty());
}

// slurmstepd of task `local` on node n2 (two tasks of three), with `changes` to its environment.
Outcome task(const std::map<std::string, std::string> &changes, std::uint32_t local = 0,
             std::uint32_t step = 0, const char *spec = nullptr, std::uint32_t tasks = 3,
             const std::string &bindir = "/nonexistent") {
    return in_child([&] {
        spank_handle spank;
        spank.environment = part;
        spank.environment.insert({{"SLURMD_NODENAME", "n2"}, {"SLURM_PROCID", std::to_string(local)}});
        spank.environment.erase("SLURM_JOB_ID"); // skypilot#9760: cleaned by the user; Slurm's own item tells
        for (const auto &[name, value] : changes)
            if (value == "-")
                spank.environment.erase(name);
            else
                spank.environment[name] = value;
        spank.items = {{S_JOB_ID, 12u},
                       {S_JOB_STEPID, step},
                       {S_TASK_ID, local},
                       {S_JOB_LOCAL_TASK_COUNT, 2u},
                       {S_JOB_TOTAL_TASK_COUNT, tasks}};
        start(spank, {"bindir=" + bindir}, spec);
        const auto before = spank.environment;
        slurm_spank_task_init(&spank, 0, nullptr);
        for (const auto &[name, value] : spank.environment)
            if (!before.contains(name) || before.at(name) != value)
                std::printf("%s=%s\n", name.c_str(), value.c_str());
        for (const auto &[name, value] : before)
            if (!spank.environment.contains(name)) std::printf("no %s\n", name.c_str());
    });
}

TEST(Task, OfAStepGetsItsRank) {
    const auto outcome = task({}, 1);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    for (const char *line : {"RANK=3\n", "WORLD_SIZE=4\n", "LOCAL_RANK=1\n", "LOCAL_WORLD_SIZE=2\n",
                             "NODE_RANK=1\n", "MASTER_ADDR=127.0.0.1\n", "MASTER_PORT=29501\n",
                             "GLOO_SOCKET_IFNAME=lo\n", "SPIDERFLOW_STAGE=1\n", "SPIDERFLOW_DP_RANK=1\n"})
        EXPECT_NE(outcome.out.find(line), std::string::npos) << line << outcome.out;
}

TEST(Task, IsLeftAloneWithOffInSlurmsOwnStepsAndInOtherJobs) {
    EXPECT_EQ(task({}, 0, 0, "off").out, "");
    EXPECT_EQ(task({}, 0, 4294967292u).out, ""); // extern
    EXPECT_EQ(task({}, 0, 4294967290u).out, ""); // interactive
    EXPECT_EQ(task({{carrier::local_job, "11"}}).out, "");
    EXPECT_EQ(task({{carrier::job, "-"}}).out, "");
}

TEST(Task, KeepsWhatTheUserSetWithOneWarningFromTheFirst) {
    const std::map<std::string, std::string> own{{"MASTER_ADDR", "1.2.3.4"}, {"WORLD_SIZE", "4"}};
    const auto first = task(own);
    EXPECT_EQ(first.out.find("MASTER_ADDR="), std::string::npos);
    EXPECT_EQ(first.err, "spiderflow: warning: kept as you set it: MASTER_ADDR=1.2.3.4 (plan: 127.0.0.1)\n");
    EXPECT_EQ(task(own, 1).err, "");
    EXPECT_NE(task({{"RANK", "2"}}).err.find("RANK=2 (plan: one for each task)"), std::string::npos);
    // From a task of an outer step: not the user's wish.
    EXPECT_NE(task({{"RANK", "7"}, {"SPIDERFLOW_JOB_ID", "s1-17"}}).out.find("RANK=2"), std::string::npos);
}

TEST(Task, OfAStepThatIsNotThePlansFailsWithBothNumbersOnce) {
    const auto first = task({}, 0, 0, nullptr, 1);
    EXPECT_EQ(first.status, 1);
    EXPECT_EQ(first.err,
              "spiderflow: job s1-17: the step has 1 task, the plan 3 at this site; for a step that is no "
              "part of the training: srun --spiderflow=off\n");
    const auto second = task({}, 1, 0, nullptr, 1);
    EXPECT_EQ(second.status, 1);
    EXPECT_EQ(second.err, "");
}

TEST(Task, WithABadOrMissingCarrierFailsAndNamesIt) {
    for (const char *name : {carrier::slots, carrier::layers, carrier::master, carrier::world})
        for (const char *value : {"-", "rubbish"}) {
            const auto outcome = task({{name, value}});
            EXPECT_EQ(outcome.status, 1);
            EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
        }
}

Outcome batch(const std::string &answer, const std::map<std::string, std::string> &changes = {}) {
    const Scratch scratch;
    scratch.script("squeue", "test \"$*\" = '-h -j 12 -o %T|%k' && echo '" + answer + "'");
    auto all = changes;
    all.insert({{carrier::master, "-"}, {carrier::local_job, "-"}});
    return task(all, 0, batch_step, nullptr, 1, scratch.path(""));
}

TEST(BatchStep, TakesTheWordAndNoRank) {
    const auto outcome = batch("RUNNING|mine spiderflow=s1-17/1 go=10.77.1.1/29501");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out, "SLURM_SPIDERFLOW_LOCALJOB=12\nSLURM_SPIDERFLOW_MASTER=10.77.1.1/29501\n");
}

TEST(BatchStep, EndsWithOneLineWhenItsJobEndsOrIsNotOurs) {
    const std::pair<const char *, const char *> cases[] = {
        {"COMPLETING|spiderflow=s1-17/1", "ended while it waited for the other sites: COMPLETING"},
        {"RUNNING|lost", "the comment of Slurm job 12 is not of this job: 'lost'; was it changed?"},
        {"RUNNING|spiderflow=s1-17/1 go=nowhere",
         "SLURM_SPIDERFLOW_MASTER='nowhere': expected ADDRESS/PORT"}};
    for (const auto &[answer, line] : cases) {
        const auto outcome = batch(answer);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, std::string("spiderflow: job s1-17: ") + line + "\n");
    }
}

TEST(BatchStep, ForgetsTheCarriersOfAnotherJob) {
    const auto outcome = batch("", {{carrier::local_job, "11"}});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("no SLURM_SPIDERFLOW_JOB\n"), std::string::npos) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("no SLURM_SPIDERFLOW_SLOTS\n"), std::string::npos);
}

} // namespace
} // namespace spider::spank
