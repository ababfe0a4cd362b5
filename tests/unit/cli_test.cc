// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/common.h"
#include "cli/exported.h"
#include "cli/home_job.h"
#include "cli/hook_lines.h"
#include "cli/link_import.h"
#include "cli/link_tables.h"
#include "cli/sbatch_options.h"
#include "cli/spec_options.h"
#include "cli/table.h"

#include <gtest/gtest.h>

#include <set>

namespace spider::cli {
namespace {

using wire::Names;
using Words = std::vector<std::string>;

TEST(SbatchOptions, WordsAreReadAsGetoptDoes) {
    const auto read = read_arguments({"-N2", "-n", "8", "--time=1:00", "--gres", "gpu:2", "--exclusive",
                                      "--wait", "--parsable", "train.sh", "-N9", "--x"});
    ASSERT_TRUE(read);
    EXPECT_EQ(read->options, (Names{{"nodes", "2"},
                                    {"ntasks", "8"},
                                    {"time", "1:00"},
                                    {"gres", "gpu:2"},
                                    {"exclusive", ""},
                                    {"wait", ""},
                                    {"parsable", ""}}));
    EXPECT_EQ(read->rest, (Words{"train.sh", "-N9", "--x"}));
    EXPECT_EQ(read->passed, (Words{"-N2", "-n", "8", "--time=1:00", "--gres", "gpu:2", "--exclusive",
                                   "--wait", "--parsable"}));
}

TEST(SbatchOptions, OursDoNotReachSbatch) {
    const auto read =
        read_arguments({"--spiderflow", "gbs=8", "--wrap=srun x", "--socket", "/s", "-Hp", "x"});
    EXPECT_FALSE(read);
    const auto good = read_arguments({"--spiderflow", "gbs=8", "--wrap=srun x", "--socket", "/s", "-p", "x"});
    ASSERT_TRUE(good);
    EXPECT_EQ(good->passed, (Words{"-p", "x"}));
    EXPECT_EQ(good->options.at("spiderflow"), "gbs=8");
    EXPECT_EQ(good->options.at("wrap"), "srun x");
}

TEST(SbatchOptions, NamesMayBeShortenedWhileTheyAreClear) {
    EXPECT_EQ(read_arguments({"--part=a"})->options, (Names{{"partition", "a"}}));
    EXPECT_EQ(read_arguments({"--mem=1G"})->options,
              (Names{{"mem", "1G"}})); // the whole of a longer one's beginning
    EXPECT_EQ(read_arguments({"--ex=a"}).error().what, "--ex: ambiguous option");
}

TEST(SbatchOptions, MisuseIsOneLineThatNamesTheWord) {
    EXPECT_EQ(read_arguments({"--nodes"}).error().what, "--nodes: a value is missing");
    EXPECT_EQ(read_arguments({"--hold=1"}).error().what, "--hold=1: takes no value");
    EXPECT_NE(read_arguments({"--mail-type=END", "x"}).error().what.find("#SBATCH"), std::string::npos);
    EXPECT_FALSE(read_arguments({"-Z"}));
    EXPECT_EQ(read_arguments({"--", "-N2"})->rest, Words{"-N2"});
}

TEST(SbatchOptions, TheTableHasNoNameAndNoLetterTwice) {
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const auto &option : sbatch_options()) {
        EXPECT_TRUE(names.insert(option.name).second) << option.name;
        EXPECT_TRUE(option.letter == 0 || letters.insert(option.letter).second) << option.name;
        EXPECT_EQ(option.use == Use::refused || !option.only.empty(), !option.cure.empty()) << option.name;
    }
}

TEST(SbatchOptions, OfRequeueAndItsOppositeTheOneThatWinsAtSbatchCounts) {
    const auto both =
        read_arguments({"--requeue", "--nice", "--no-requeue", "-H", "--nice=7", "-b", "now+1hour"});
    ASSERT_TRUE(both);
    EXPECT_EQ(both->options,
              (Names{{"no-requeue", ""}, {"nice", "7"}, {"hold", ""}, {"begin", "now+1hour"}}));
    EXPECT_EQ(script_options("#SBATCH --no-requeue\n#SBATCH --requeue --nice\n"),
              (Names{{"requeue", ""}, {"nice", ""}}));
    EXPECT_EQ(environment_options(Words{"SBATCH_NO_REQUEUE=1"}), (Names{{"no-requeue", ""}}));
    Names options{{"requeue", ""}, {"deadline", "now+2hours"}};
    add_missing(options, {{"no-requeue", ""}, {"deadline", "tomorrow"}, {"dependency", "singleton"}});
    EXPECT_EQ(options, (Names{{"requeue", ""}, {"deadline", "now+2hours"}, {"dependency", "singleton"}}));
}

TEST(ScriptOptions, LinesBeforeTheFirstCommandCount) {
    const auto options = script_options("#!/bin/bash\n"
                                        "#SBATCH -N 2 --time=5 # a remark --hold\n"
                                        "\n"
                                        "# a comment\n"
                                        "#SBATCH --comment=\"my own\" -J 'a b'\n"
                                        " #SBATCH --ntasks=4\n"
                                        "##SBATCH --ntasks=5\n"
                                        "#SBATCH --spiderflow=model=m,gbs=8\n"
                                        "#SBATCH --mail-type END -p gpu\n"
                                        "export A=1\n"
                                        "#SBATCH --mem=1G\n");
    EXPECT_EQ(options, (Names{{"nodes", "2"},
                              {"time", "5"},
                              {"comment", "my own"},
                              {"job-name", "a b"},
                              {"spiderflow", "model=m,gbs=8"},
                              {"partition", "gpu"}}));
    EXPECT_EQ(script_options(""), Names{});
    EXPECT_EQ(script_options("#SBATCH -N2"), (Names{{"nodes", "2"}}));
    EXPECT_EQ(script_options("#SBATCH --nodes"), Names{}); // sbatch complains itself
}

TEST(EnvironmentOptions, SbatchsInputVariablesAreOptionsToo) {
    const Words environment{"SBATCH_TIMELIMIT=10", "SBATCH_WAIT=1", "SLURM_CLUSTERS=other", "HOME=/h",
                            "SBATCH_DEBUG=1"};
    EXPECT_EQ(environment_options(environment), (Names{{"time", "10"}, {"wait", ""}, {"clusters", "other"}}));
}

TEST(Refusal, WhatAFederatedJobCannotHaveIsNamedWithTheCure) {
    for (const auto *name : {"array", "clusters", "gpus"}) {
        const auto refused = refusal({{name, "1"}, {"nodes", "2"}});
        ASSERT_TRUE(refused) << name;
        EXPECT_EQ(refused->what.find("--" + std::string(name) + " is not possible"), 0u);
        EXPECT_EQ(refused->what.find('\n'), std::string::npos);
    }
    EXPECT_FALSE(refusal({{"nodes", "2"}, {"comment", "x"}, {"wait", ""}}));
    const Names whole{{"hold", "set"},      {"begin", "now"}, {"dependency", "after:1"},
                      {"deadline", "noon"}, {"nice", ""},     {"requeue", ""}};
    EXPECT_FALSE(refusal(whole));
    EXPECT_EQ(carried(whole), whole);
    EXPECT_FALSE(refusal({{"gpus-per-task", "1"}}));
    for (const auto *value : {"2", "h100:1", ""})
        EXPECT_EQ(refusal({{"gpus-per-task", value}})
                      ->what.find("--gpus-per-task=" + std::string(value) + " is not possible"),
                  0u);
    EXPECT_TRUE(refusal(script_options("#!/bin/sh\n#SBATCH hetjob\n")));
    EXPECT_TRUE(refusal(read_arguments({"-N1", ":", "-N2", "x.sh"})->options));
}

TEST(OptionWord, ValuelessOptionsStayValueless) {
    EXPECT_EQ(option_word("hold", ""), "--hold");
    EXPECT_EQ(option_word("exclusive", ""), "--exclusive");
    EXPECT_EQ(option_word("exclusive", "user"), "--exclusive=user");
    EXPECT_EQ(option_word("comment", ""), "--comment=");
    EXPECT_EQ(option_word("nodes", "2"), "--nodes=2");
}

const Words user_environment{"A=1",
                             "B=x=y",
                             "PATH=/bin",
                             "HOME=/h",
                             "SLURM_JOB_ID=1",
                             "SLURMD_X=1",
                             "XDG_RUNTIME=1",
                             "SSH_AUTH_SOCK=1",
                             "_=/bin/x",
                             "_SLURM_X=1",
                             "BASH_FUNC_f%%=() { :; }",
                             "LD_PRELOAD=x",
                             "BAD=\xff",
                             "EMPTY=",
                             "SBATCH_X=1",
                             "TMPDIR=/t",
                             "PATHS=1",
                             "KRB5CCNAME=1"};

TEST(Exported, WhatIsTrueOnlyHereStaysHere) {
    const Names all{{"A", "1"}, {"B", "x=y"}, {"EMPTY", ""}, {"PATHS", "1"}};
    EXPECT_EQ(exported(user_environment, std::nullopt), all);
    EXPECT_EQ(exported(user_environment, ""), all);
    EXPECT_EQ(exported(user_environment, "ALL"), all);
}

TEST(Exported, TheListOfExportIsFollowedAsSbatchDoes) {
    EXPECT_EQ(exported(user_environment, "NONE"), Names{});
    EXPECT_EQ(exported(user_environment, "NIL"), Names{});
    EXPECT_EQ(exported(user_environment, "B,C=3,UNSET,PATH,HOME=/x"), (Names{{"B", "x=y"}, {"C", "3"}}));
    EXPECT_EQ(exported(user_environment, "ALL,A=2,N='a,b'"),
              (Names{{"A", "2"}, {"B", "x=y"}, {"EMPTY", ""}, {"PATHS", "1"}, {"N", "'a,b'"}}));
    EXPECT_EQ(exported(user_environment, "\"N=a,b\",A"), (Names{{"N", "a,b"}, {"A", "1"}}));
}

TEST(Utf8, OverlongAndTornTextIsRefused) {
    for (const auto *good : {"", "plain", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x95\xb7"})
        EXPECT_TRUE(is_utf8(good)) << good;
    for (const auto *bad :
         {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80", "\x80"})
        EXPECT_FALSE(is_utf8(bad));
}

TEST(HomeJob, IsFoundByTheMarkInItsComment) {
    const auto *printed = "11|spiderflow=s1-1/1\n"
                          "12|my | own text spiderflow=s1-17/1\n"
                          "13_4|spiderflow=s1-17/1\n"
                          "14|\n"
                          "15|two\nlines | spiderflow=s1-18/1 go=10.0.0.1/29501\n"
                          "16|(null)\n";
    EXPECT_EQ(home_job_in(printed, "s1-17"), 12);
    EXPECT_EQ(home_job_in(printed, "s1-1"), 11);
    EXPECT_EQ(home_job_in(printed, "s1-18"), 15);
    EXPECT_EQ(home_job_in(printed, "s1-7"), std::nullopt);
    EXPECT_EQ(home_job_in("", "s1-17"), std::nullopt);
    EXPECT_EQ(home_job_in("7|spiderflow=s1-2/1\n9|spiderflow=s1-2/2\n8|x\n", "s1-2"), 9);
}

TEST(HookLines, ThePluginsLinesAreRead) {
    const auto read =
        read_plan_lines("spec model=a b,gbs=8\noption comment 50%25 | a%0Ab\noption wait \noption hold\n"
                        "test-only\n");
    ASSERT_TRUE(read);
    EXPECT_EQ(*read,
              (PlanLines{"model=a b,gbs=8", {{"comment", "50% | a\nb"}, {"wait", ""}, {"hold", ""}}, true}));
    EXPECT_EQ(*read_plan_lines("spec \n"), PlanLines{});
    EXPECT_EQ(read_plan_lines("nonsense x\n").error().code, Errc::protocol);
    const auto place = read_place_lines("arg a b\narg \narg c%0Ad\nexport ALL,X=1\n");
    ASSERT_TRUE(place);
    EXPECT_EQ(*place, (PlaceLines{{"a b", "", "c\nd"}, "ALL,X=1"}));
    EXPECT_EQ(read_place_lines("")->export_value, std::nullopt);
}

TEST(HookLines, TheAnswerIsOneLinePerThing) {
    wire::PlanReply reply;
    reply.id = "s1-17";
    reply.line = "100% ready";
    reply.options = {{"nodes", "2"}, {"comment", "a\nb spiderflow=s1-17/1"}, {"hold", ""}};
    reply.environment = {{"SLURM_SPIDERFLOW_JOB", "s1-17"}};
    EXPECT_EQ(plan_lines(reply), "id s1-17\n"
                                 "say 100%25 ready\n"
                                 "option nodes 2\n"
                                 "option comment a%0Ab spiderflow=s1-17/1\n"
                                 "option hold \n"
                                 "env SLURM_SPIDERFLOW_JOB s1-17\n");
    EXPECT_EQ(line("fail", "a\nb"), "fail a%0Ab\n");
}

TEST(Compose, TheCommandLineWinsOverSpecAndSpecOverTheEnvironment) {
    EXPECT_EQ(*compose("model=m,tp=2,sites=a+b", {{"tp", "4"}, {"sites", "c,d"}}, "gbs=8"),
              (SpecText{"model=m,sites=c+d,tp=4", "gbs=8"}));
    EXPECT_EQ(*compose("", {{"tp", "4"}}, "gbs=8"), (SpecText{"tp=4", "gbs=8"}));
    EXPECT_EQ(*compose("job.toml", {}, "gbs=8"), (SpecText{"job.toml", "gbs=8"}));
    EXPECT_EQ(*compose("job.toml", {{"tp", "4"}}, "gbs=8"), (SpecText{"tp=4", "job.toml"}));
    EXPECT_FALSE(compose("", {{"model", "a,b"}}, ""));
}

wire::LinksView three_links() {
    wire::LinkState fast{.from = "s1", .to = "s2", .gbps = 8.912, .gbps_median = 9.1, .rtt_ms = 25.3};
    fast.source = "probe", fast.measured_at = 1000, fast.reserved_gbps = 2.2;
    auto old = fast;
    old.from = "s2", old.to = "s1", old.gbps = 1.2, old.measured_at = 100, old.reserved_gbps = 0;
    return {1060, 600, {fast, {.from = "s1", .to = "s3", .trouble = "never measured"}, old}};
}

TEST(LinkTables, TheWorstComesFirstAndUnknownIsNoNumber) {
    EXPECT_EQ(link_list(three_links()),
              "FROM  TO  GBIT/S  MEDIAN  IN USE  RTT/MS            AGE  SOURCE  TROUBLE\n"
              "s1    s3       -       -       -       -              -  -       never measured\n"
              "s2    s1     1.2     9.1       -    25.3  16:00 (stale)  probe   -\n"
              "s1    s2    8.91     9.1     2.2    25.3           1:00  probe   -\n");
}

TEST(LinkTables, AMatrixHasARowForEachSender) {
    EXPECT_EQ(link_matrix(three_links()), "GBIT/S   s1    s2  s3\n"
                                          "s1           8.91   -\n"
                                          "s2      1.2         -\n"
                                          "s3        -     -\n"
                                          "\n"
                                          "RTT/MS    s1    s2  s3\n"
                                          "s1            25.3   -\n"
                                          "s2      25.3         -\n"
                                          "s3         -     -\n");
}

TEST(LinkImport, AllFilesOrNothing) {
    const std::string links = SF_TEST_DATA "/links/", at = "2026-11-03T10:15:00Z";
    const auto good = read_samples({.files = {links + "list.csv", links + "pscheduler_rtt.json"},
                                    .sites = {"dtn.s1.example.org=s1", "dtn.s2.example.org=s2"}});
    ASSERT_TRUE(good) << good.error().what;
    EXPECT_EQ(good->size(), 5u);
    const auto federation =
        read_samples({.files = {SF_TEST_DATA "/topologies/fluidstack_3region.json"}, .at = at});
    ASSERT_TRUE(federation) << federation.error().what;
    EXPECT_EQ(federation->size(), 6u);
    EXPECT_EQ(federation->front().source, probe::Source::file);
    const auto error = [](const ImportRequest &request) { return read_samples(request).error().what; };
    EXPECT_EQ(
        error({.files = {links + "list.csv", links + "iperf3_refused.json"}}),
        links +
            "iperf3_refused.json: the test failed: error - unable to connect to server: Connection refused");
    EXPECT_EQ(error({.files = {"/no/file"}}), "/no/file: No such file or directory");
    EXPECT_EQ(error({.files = {"-"}, .from = "s1"}), "--from and --to: both, or neither");
    EXPECT_EQ(error({.files = {"-"}, .format = "xml"}),
              "--format=xml: expected iperf3, pscheduler, csv, toml or federation");
    EXPECT_EQ(error({.files = {"-"}, .at = "now"}),
              "--at now: expected YYYY-MM-DDTHH:MM:SSZ or seconds since the epoch");
    EXPECT_EQ(error({.files = {"-"}, .sites = {"dtn"}}), "--site dtn: expected HOST=SITE");
}

TEST(Table, ColumnsAreAlignedAndSafeForATerminal) {
    Table table({{"ID"}, {"N", true}, {"WHY"}});
    table.add({"s1-1", "5", "-"});
    table.add({"x", "1000", "\x1b[2Jgr\xc3\xbcn"});
    EXPECT_EQ(table.text(), "ID       N  WHY\n"
                            "s1-1     5  -\n"
                            "x     1000  ?[2Jgr\xc3\xbcn\n");
}

TEST(Age, IsWrittenAsSqueueDoes) {
    EXPECT_EQ(age(-3), "0:00");
    EXPECT_EQ(age(247), "4:07");
    EXPECT_EQ(age(3847), "1:04:07");
    EXPECT_EQ(age(176647), "2-01:04:07");
}

} // namespace
} // namespace spider::cli
