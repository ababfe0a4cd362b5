// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin's values: carriers, word, geometry, the helper's answers. Ranks: spank_rank_test.cc; hooks:
// spank_hooks_test.cc.
#include "fake_spank.h"
#include "spank_part.h"

#include "spank/carriers.h"
#include "spank/commandline.h"
#include "spank/hook.h"
#include "spank/interface.h"
#include "spank/rank.h"
#include "spank/settings.h"
#include "spank/step.h"
#include "spank/word.h"

#include <gtest/gtest.h>

#include <set>

namespace spider::spank {
namespace {

TEST(Carriers, OfAPartAreRead) {
    const auto part = a_part();
    const auto read = read_carriers(in(part));
    ASSERT_TRUE(read.ok()) << read.error().what;
    EXPECT_EQ(read->job, "s1-17");
    EXPECT_EQ(read->attempt, 3);
    ASSERT_EQ(read->nodes.size(), 2u);
    EXPECT_EQ(read->nodes[0], (std::vector<Slot>{{1, 0}, {1, 1}}));
    EXPECT_EQ(read->nodes[1], (std::vector<Slot>{{0, 1}}));
    EXPECT_EQ(read->layers, (std::vector<Layers>{{0, 5}, {6, 7}}));
    EXPECT_EQ(read->tasks(), 6);
    EXPECT_EQ(read->tasks_on(0), 4);
    EXPECT_EQ(read->all_nodes, 3);
    EXPECT_EQ(read->node_ranks, (std::vector{2, 1}));
    EXPECT_EQ(read->depths, (std::vector{4, 1}));
    EXPECT_EQ(read->micro_batches, 8);
    EXPECT_FALSE(read->per_node);
    EXPECT_TRUE(read->files.empty());
}

TEST(Carriers, BringWhatTheTrainerIsTold) {
    auto part = a_part();
    part[carrier::launcher] = "torchrun", part[carrier::arguments] = "--x @a.txt@",
    part[carrier::trainer] = "plain";
    part["SLURM_SPIDERFLOW_FILE_1"] = "plan.json {}", part["SLURM_SPIDERFLOW_FILE_2"] = "a.txt one%0Atwo %25";
    part["SLURM_SPIDERFLOW_FILE_4"] = "after a hole";
    const auto read = read_carriers(in(part)).value();
    EXPECT_TRUE(read.per_node);
    EXPECT_EQ(read.tasks_on(0), 1);
    EXPECT_EQ(read.gpus_on(0), 4);
    EXPECT_EQ(read.tasks(), 2);
    EXPECT_EQ(read.files, (std::vector<std::pair<std::string, std::string>>{{"plan.json", "{}"},
                                                                            {"a.txt", "one\ntwo %"}}));
}

TEST(Carriers, ABadOneIsAnErrorThatNamesIt) {
    const std::pair<const char *, const char *> bad[] = {{carrier::attempt, "x"},
                                                         {carrier::attempt, "-1"},
                                                         {carrier::world, "9"},
                                                         {carrier::world, ""},
                                                         {carrier::pp, "0"},
                                                         {carrier::pp, "99999999999999999999"},
                                                         {carrier::tp, "2 "},
                                                         {carrier::slots, "1.0,1.1/2.1"},
                                                         {carrier::slots, "1.0,1.2/0.1"},
                                                         {carrier::slots, "1.0,1.0/0.1"},
                                                         {carrier::slots, "1.0,,1.1"},
                                                         {carrier::slots, "1.0//0.1"},
                                                         {carrier::slots, "1/0.1"},
                                                         {carrier::slots, "-1.0"},
                                                         {carrier::layers, "0-5"},
                                                         {carrier::layers, "0-5,7-8"},
                                                         {carrier::layers, "1-5,6-7"},
                                                         {carrier::layers, "0-5,6-5"},
                                                         {carrier::nnodes, "0"},
                                                         {carrier::job, ""},
                                                         {carrier::node_ranks, "a,1"},
                                                         {carrier::node_ranks, "1"},
                                                         {carrier::depths, "4"},
                                                         {carrier::depths, "4,0"},
                                                         {carrier::depths, "4,1,1"},
                                                         {carrier::micro_batches, "0"}};
    for (const auto &[name, value] : bad) {
        auto part = a_part();
        part[name] = value;
        const auto read = read_carriers(in(part));
        ASSERT_FALSE(read.ok()) << name << "=" << value;
        EXPECT_NE(read.error().what.find(name), std::string::npos) << read.error().what;
    }
}

TEST(Carriers, AMissingOneIsAnErrorThatNamesIt) {
    for (const auto &[name, value] : a_part()) {
        auto part = a_part();
        part.erase(name);
        const auto read = read_carriers(in(part));
        EXPECT_EQ(read ? "" : read.error().what, name + " is missing");
    }
}

TEST(Carriers, PatienceIsFiveMinutesUnlessSaid) {
    EXPECT_EQ(read_patience(in({})), 300);
    EXPECT_EQ(read_patience(in({{carrier::patience, "17"}})), 17);
    EXPECT_EQ(read_patience(in({{carrier::patience, "soon"}})), 300);
}

TEST(Word, IsAnAddressAndAPort) {
    EXPECT_EQ(parse_master("10.77.1.1/29501").value(), (Master{"10.77.1.1", 29501}));
    EXPECT_EQ(parse_master("fd00::1/1").value(), (Master{"fd00::1", 1}));
    for (const char *bad :
         {"", "10.77.1.1", "/29501", "10.77.1.1/", "10.77.1.1/0", "10.77.1.1/65536", "a b/1"})
        EXPECT_FALSE(parse_master(bad).ok()) << bad;
}

TEST(Word, IsTakenOnlyFromARunningJobOfOurAttempt) {
    const auto see = [](const char *line) { return judge(line, {"s1-17", 2, 0}); };
    EXPECT_EQ(see("RUNNING|mine | x spiderflow=s1-17/2 go=10.0.0.1/29501 run=0\n"),
              (Seen{Look::go, "10.0.0.1/29501"}));
    EXPECT_EQ(see("CONFIGURING|spiderflow=s1-17/2"), (Seen{Look::wait, ""}));
    EXPECT_EQ(see("RUNNING|spiderflow=s1-17/1 go=10.0.0.1/29501 run=0 back=0"), (Seen{Look::wait, ""}));
    EXPECT_EQ(see("RUNNING|spiderflow=s1-17/3 go=10.0.0.1/29501 run=0"), (Seen{Look::old, "3"}));
    EXPECT_EQ(see("RUNNING|spiderflow=s1-17/3"), (Seen{Look::old, "3"}));
    EXPECT_EQ(see(""), (Seen{Look::wait, ""}));
    EXPECT_EQ(see("COMPLETING|spiderflow=s1-17/2 go=10.0.0.1/29501 run=0"),
              (Seen{Look::ended, "COMPLETING"}));
    EXPECT_EQ(see("CANCELLED|spiderflow=s1-17/2 back=0"), (Seen{Look::ended, "CANCELLED"}));
    EXPECT_EQ(see("RUNNING|spiderflow=s1-18/2 go=10.0.0.1/1 run=0").look, Look::stranger);
    EXPECT_EQ(see("RUNNING|(null)"), (Seen{Look::stranger, "(null)"}));
}

TEST(Word, IsForOneRunOfTheJobAndSoIsTheOrderToGiveBack) {
    const auto see = [](const char *told, int run) {
        return judge(std::string("RUNNING|spiderflow=s1-17/1") + told, {"s1-17", 1, run});
    };
    EXPECT_EQ(see(" go=10.0.0.1/29501 run=2", 2), (Seen{Look::go, "10.0.0.1/29501"}));
    EXPECT_EQ(see(" go=10.0.0.1/29501 run=0", 1).look, Look::again);
    EXPECT_EQ(see(" go=10.0.0.1/29501", 1).look, Look::again);
    EXPECT_EQ(see(" go=10.0.0.1/29501 run=2", 1).look, Look::again);
    EXPECT_EQ(see(" back=0", 0).look, Look::back);
    EXPECT_EQ(see(" back=3", 3).look, Look::back);
    EXPECT_EQ(see(" back=0", 1).look, Look::wait); // it has done so
    EXPECT_EQ(see(" back=1", 0).look, Look::wait);
    EXPECT_EQ(see(" go=10.0.0.1/29501 run=1 back=0", 1), (Seen{Look::go, "10.0.0.1/29501"}));
    EXPECT_EQ(see(" go=10.0.0.1/29501 run=1 back=1", 1).look, Look::back);
}

TEST(Command, OfSlurmIsLookedForBesideTheDaemons) {
    EXPECT_EQ(command_paths("squeue", "", "/opt/slurm/sbin/slurmstepd").front(), "/opt/slurm/bin/squeue");
    EXPECT_EQ(command_paths("scontrol", "/x", "/usr/sbin/slurmstepd")[0], "/x/scontrol");
    EXPECT_EQ(command_paths("squeue", "", "/slurmstepd").front(), "/bin/squeue");
    EXPECT_EQ(command_paths("scontrol", "", "").front(), "/usr/bin/scontrol");
}

TEST(Mismatch, IsToldWithBothNumbers) {
    const auto part = a_part();
    const auto carriers = read_carriers(in(part)).value();
    const Place fits{"a", {"a", "b"}, 3, 4, 6, ""};
    EXPECT_FALSE(mismatch(carriers, fits).has_value());
    auto place = fits;
    place.step_tasks = 1;
    EXPECT_EQ(mismatch(carriers, place)->what, "the step has 1 task, the plan 6 at this site");
    EXPECT_TRUE(mismatch(carriers, place)->whole);
    place = fits;
    place.local_tasks = 5;
    EXPECT_EQ(mismatch(carriers, place)->what, "node a has 5 tasks, the plan 4");
    EXPECT_FALSE(mismatch(carriers, place)->whole);
    place = fits;
    place.nodes.emplace_back("c");
    EXPECT_EQ(mismatch(carriers, place)->what, "the job has 3 nodes, SLURM_SPIDERFLOW_SLOTS 2");
    place = fits;
    place.node = "z";
    EXPECT_EQ(mismatch(carriers, place)->what, "node z is not in the job's node list");
}

TEST(Step, IsThePlansUnlessTheUserGaveAnotherGeometry) {
    const auto part = a_part();
    const auto carriers = read_carriers(in(part)).value(); // 2 nodes, 6 tasks
    EXPECT_TRUE(is_the_plans({}, carriers));
    EXPECT_TRUE(is_the_plans({"2", "6"}, carriers));
    EXPECT_TRUE(is_the_plans({"2-2", "8", "8"}, carriers)); // Slurm's own count of an uneven job
    EXPECT_FALSE(is_the_plans({"1", "6"}, carriers));
    EXPECT_FALSE(is_the_plans({"1-2", ""}, carriers));
    EXPECT_FALSE(is_the_plans({"2", "4", "8"}, carriers));
    EXPECT_FALSE(is_the_plans({"", "", "", true}, carriers));
}

TEST(Step, IsShapedAsThePlan) {
    const auto part = a_part();
    const auto carriers = read_carriers(in(part)).value();
    EXPECT_EQ(shape(carriers, "gpu[07-08]").value(),
              (std::vector<std::pair<std::string, std::string>>{
                  {"nodes", "2"},
                  {"ntasks", "6"},
                  {"distribution", "arbitrary"},
                  {"nodelist", "gpu07,gpu07,gpu07,gpu07,gpu08,gpu08"}}));
    EXPECT_FALSE(shape(carriers, "gpu[07-09]").ok());
    EXPECT_FALSE(shape(carriers, "gpu[07").ok());
}

TEST(Helper, AnswersInLines) {
    const auto reply = parse_reply("say a plan%0Aof two lines\nid s1-17\noption hold\noption comment a b\n"
                                   "env SLURM_SPIDERFLOW_DP 2\nenv EMPTY \n");
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->say, std::vector<std::string>{"a plan\nof two lines"});
    EXPECT_EQ(reply->id, "s1-17");
    EXPECT_EQ(reply->options,
              (std::vector<std::pair<std::string, std::string>>{{"hold", ""}, {"comment", "a b"}}));
    EXPECT_EQ(reply->environment, (std::vector<std::pair<std::string, std::string>>{
                                      {"SLURM_SPIDERFLOW_DP", "2"}, {"EMPTY", ""}}));
    EXPECT_EQ(parse_reply("keep stage a%250Ab\n")->keep, std::vector<std::string>{"stage a%0Ab"});
    EXPECT_EQ(parse_reply("fail no model%0Ahere\n")->fail, "no model\nhere");
    EXPECT_EQ(parse_reply("usage: spiderflow\n").error().code, Errc::protocol);
    std::string input;
    add_line(input, "spec");
    add_line(input, "arg", "two\nlines");
    EXPECT_EQ(input, "spec\narg two%0Alines\n");
}

TEST(Helper, ThatIsMissingOrBreaksIsAnErrorWithItsLastWords) {
    const Scratch scratch;
    const auto ask = [&](const std::string &path) {
        return ask_helper({path, "/sock", ""}, {"plan"}, "spec\n", 10);
    };
    EXPECT_EQ(ask("/nonexistent/x").error().what, "helper: /nonexistent/x: No such file or directory");
    const auto breaks = scratch.script("breaks", "echo first >&2; echo 'it broke' >&2; exit 3");
    EXPECT_EQ(ask(breaks).error().what, "helper: " + breaks + " ended with status 3: it broke");
    const auto refuses = scratch.script("refuses", "echo 'fail no such site: s9'; exit 1");
    EXPECT_EQ(ask(refuses)->fail, "no such site: s9");
    const auto echoes = scratch.script("echoes", "read line; echo \"say $* $line\"");
    EXPECT_EQ(ask(echoes)->say, std::vector<std::string>{"--socket /sock hook plan spec"});
}

TEST(Settings, AnUnknownArgumentIsNamedAndTheRestStillCounts) {
    std::string words[] = {"sokcet=/x", "helper=/opt/bin/spiderflow", "bindir=bin", "socket"};
    char *arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data()};
    Settings settings;
    const auto complaints = read_settings(4, arguments, settings);
    ASSERT_EQ(complaints.size(), 3u);
    EXPECT_EQ(complaints[0],
              "plugstack.conf: unknown argument 'sokcet': expected helper=, socket= or bindir=");
    EXPECT_EQ(complaints[1], "plugstack.conf: bindir: expected bindir=/absolute/path");
    EXPECT_EQ(settings.helper, "/opt/bin/spiderflow");
    EXPECT_EQ(settings.bindir, "");
}

TEST(Option, WithoutAnArgumentIsAnEmptySpecInAllItsForms) {
    for (const char *form : {static_cast<const char *>(nullptr), "", "(null)"})
        EXPECT_EQ(spec_of(form), "");
    EXPECT_EQ(spec_of("model=x"), "model=x");
}

TEST(CommandLine, KnowsTheScriptAndItsArguments) {
    EXPECT_EQ((CommandLine{{"sbatch", "-N1", "job.sh", "a", "b c"}, 2}).script_arguments(),
              (std::vector<std::string>{"a", "b c"}));
    EXPECT_TRUE((CommandLine{{"sbatch", "-N1"}, 2}).script_arguments().empty());
    EXPECT_TRUE((CommandLine{{"sbatch", "-N1", ":", "-N2", "job.sh"}, 2}).heterogeneous());
    EXPECT_FALSE((CommandLine{{"sbatch", "--comment", ":", "job.sh"}, 3}).heterogeneous());
}

TEST(Interface, IsTheOneTowardsTheAddress) {
    EXPECT_EQ(interface_towards("127.0.0.1"), "lo");
    EXPECT_EQ(interface_towards("not-an-address"), "");
    EXPECT_EQ(interface_towards(""), "");
}

TEST(Guard, NoExceptionPassesAndTheHookSucceeds) {
    bool otherwise = false;
    EXPECT_EQ(guarded(
                  "a hook", [] { throw std::runtime_error("x"); }, [&]() noexcept { otherwise = true; }),
              0);
    EXPECT_TRUE(otherwise);
    const auto outcome = in_child([] { guarded("a hook", [] { throw 1; }); });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "error: spiderflow: a hook: unknown exception\n");
}

} // namespace
} // namespace spider::spank
