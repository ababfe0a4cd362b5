// SPDX-License-Identifier: GPL-3.0-or-later
// The hooks of srun and slurmstepd, over fake functions of Slurm; those of sbatch: spank_hooks_test.cc.
#include "fake_spank.h"
#include "spank_part.h"
#include "spank_start.h"

#include "spank/carriers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unistd.h>

namespace spider::spank {
namespace {

constexpr std::uint32_t batch_step = 4294967291u;

// Another part than a_part(): s1, two nodes with three tasks; it has had the word.
Variables the_part() {
    auto part = a_part();
    for (const auto &[name, value] :
         std::initializer_list<std::pair<const char *, const char *>>{{carrier::attempt, "1"},
                                                                      {carrier::site, "s1"},
                                                                      {carrier::world, "4"},
                                                                      {carrier::tp, "1"},
                                                                      {carrier::slots, "0.0/1.0,1.1"},
                                                                      {carrier::layers, "0-3,4-7"},
                                                                      {carrier::node_ranks, "0,1"},
                                                                      {carrier::local_job, "12"},
                                                                      {carrier::master, "127.0.0.1/29501"},
                                                                      {"SLURM_JOB_NODELIST", "n[1-2]"},
                                                                      {"SLURM_JOB_ID", "12"}})
        part[name] = value;
    return part;
}
const auto part = the_part();

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
             const std::string &bindir = "/nonexistent", std::uint32_t restarts = 0) {
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
                       {S_JOB_TOTAL_TASK_COUNT, tasks},
                       {S_SLURM_RESTART_COUNT, restarts}};
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

// `scontrol`: what that command does.
Outcome batch(const std::string &answer, const std::map<std::string, std::string> &changes = {},
              std::uint32_t restarts = 0, const std::string &scontrol = "") {
    const Scratch scratch;
    scratch.script("squeue", "test \"$*\" = '-h -j 12 -o %T|%k' && echo '" + answer + "'");
    scratch.script("scontrol", "test \"$*\" = 'requeuehold 12' || exit 9\n" + scontrol);
    auto all = changes;
    all.insert({{carrier::master, "-"}, {carrier::local_job, "-"}});
    return task(all, 0, batch_step, nullptr, 1, scratch.path(""), restarts);
}

TEST(BatchStep, TakesTheWordAndNoRank) {
    const auto outcome = batch("RUNNING|mine spiderflow=s1-17/1 go=10.77.1.1/29501 run=0");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out, "SLURM_NPROCS=3\nSLURM_NTASKS=3\nSLURM_SPIDERFLOW_LOCALJOB=12\n"
                           "SLURM_SPIDERFLOW_MASTER=10.77.1.1/29501\n");
}

TEST(BatchStep, CountsAttemptsAsRestartsAndNotWhatWasGivenBack) {
    const auto first =
        batch("RUNNING|spiderflow=s1-17/1 go=10.77.1.1/29501 run=2 back=1", {{"SLURM_RESTART_COUNT", "2"}});
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_NE(first.out.find("no SLURM_RESTART_COUNT\n"), std::string::npos) << first.out;
    const auto third =
        batch("RUNNING|spiderflow=s1-17/3 go=10.77.1.1/29501 run=0", {{carrier::attempt, "3"}});
    EXPECT_EQ(third.status, 0) << third.err;
    EXPECT_NE(third.out.find("SLURM_RESTART_COUNT=2\n"), std::string::npos) << third.out;
}

// Slurm 22.05 leaves the item at 0 and fills the variable.
TEST(BatchStep, KnowsItsRunFromTheItemOrFromTheVariable) {
    const auto again = "RUNNING|spiderflow=s1-17/1 go=10.77.1.1/29501 run=1";
    EXPECT_EQ(batch(again, {}, 1).status, 0);
    EXPECT_EQ(batch(again, {{"SLURM_RESTART_COUNT", "1"}}, 0).status, 0);
    EXPECT_EQ(batch(again, {}, 0).status, 1);
    EXPECT_EQ(batch(again, {{"SLURM_RESTART_COUNT", "rubbish"}}, 0).status, 1);
}

TEST(BatchStep, GivesItsGpusBackWhenToldAndSaysSo) {
    const auto outcome = batch("RUNNING|spiderflow=s1-17/1 back=2", {}, 2, "kill -TERM $PPID $$; sleep 0.1");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "spiderflow: job s1-17: gives its GPUs back and waits for the other sites\n");
}

TEST(BatchStep, ThatMayNotGiveItsGpusBackFailsWithScontrolsWords) {
    const std::string line = "spiderflow: job s1-17: could not give its GPUs back: ";
    const auto refused = batch("RUNNING|spiderflow=s1-17/1 back=0", {}, 0, "echo 'Job is disabled 12' >&2");
    EXPECT_EQ(refused.status, 1);
    EXPECT_EQ(refused.err, line + "Job is disabled 12\n");
    const auto broken = batch("RUNNING|spiderflow=s1-17/1 back=0", {}, 0, "exit 3");
    EXPECT_EQ(broken.status, 1);
    EXPECT_EQ(broken.err.find(line), 0u) << broken.err;
    EXPECT_NE(broken.err.find("scontrol ended with status 3\n"), std::string::npos) << broken.err;
}

TEST(BatchStep, EndsWithOneLineWhenItsJobEndsOrItsTimeIsOverOrItIsNotOurs) {
    struct Case {
        const char *answer;
        std::uint32_t restarts;
        const char *line;
    };
    for (const auto &[answer, restarts, line] :
         {Case{"COMPLETING|spiderflow=s1-17/1", 0, "ended while it waited for the other sites: COMPLETING"},
          Case{"RUNNING|lost", 0, "the comment of Slurm job 12 is not of this job: 'lost'; was it changed?"},
          Case{"RUNNING|spiderflow=s1-17/2", 0, "this is attempt 1, attempt 2 has taken its place"},
          Case{"RUNNING|spiderflow=s1-17/1 go=10.77.1.1/29501 run=0", 1,
               "its site started this part again; the others do not wait for it"},
          Case{"RUNNING|spiderflow=s1-17/1 go=nowhere run=0", 0,
               "SLURM_SPIDERFLOW_MASTER='nowhere': expected ADDRESS/PORT"}}) {
        const auto outcome = batch(answer, {}, restarts);
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
