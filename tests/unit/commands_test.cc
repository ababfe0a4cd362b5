// SPDX-License-Identifier: GPL-3.0-or-later
// The sub-commands with a broker; `plan` and `explain` on files are in plan_command_test.cc.
#include "cli/hook_lines.h"
#include "unit/command_fixture.h"
#include "util/text.h"

namespace spider::cli {
namespace {

TEST_F(CommandTest, SubmitIsSbatchWithOurOptionsLast) {
    const Server server(broker(), slurm.socket);
    const auto script =
        slurm.file("train.sh", "#!/bin/sh\n#SBATCH --spiderflow=" + spec + "\n#SBATCH -J deep\necho\n");
    const auto ended = run({"submit", "-N4", "-t", "5", script, "status", "-x"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.out, "Submitted batch job 7\n");
    EXPECT_EQ(slurm.calls("sbatch"),
              Words{"sbatch -N4 -t 5 --nodes=1 --comment=spiderflow=s1-17/1 --hold --requeue " + script +
                    " status -x"});
    EXPECT_EQ(read("env"), "s1-17 s1\n");
    const auto asked = server.requests().at(0);
    const auto request = wire::parse<wire::PlanRequest>(asked.substr(asked.find("\r\n\r\n") + 4));
    ASSERT_TRUE(request);
    EXPECT_EQ(request->options, (wire::Names{{"nodes", "4"}, {"time", "5"}, {"job-name", "deep"}}));
    EXPECT_TRUE(saw(server, "POST /v1/jobs/s1-17/place "));
}

TEST_F(CommandTest, SubmitGivesSbatchWhatMeansTheWholeJobAndTellsTheBroker) {
    const Server server(broker(), slurm.socket);
    ::setenv("SLURM_RESTART_COUNT", "3", 1); // of the job that it runs in
    slurm.tool("sbatch", "echo \"${SLURM_RESTART_COUNT-none}\" >$here/env");
    const auto ended = run({"submit", "--spiderflow=" + spec, "-b", "now+1hour", "-d", "afterok:3",
                            "--deadline=tomorrow", "--nice", "--no-requeue", "-H", "--wrap=x"});
    ::unsetenv("SLURM_RESTART_COUNT");
    EXPECT_EQ(slurm.calls("sbatch"),
              Words{"sbatch -b now+1hour -d afterok:3 --deadline=tomorrow --nice --no-requeue -H --nodes=1 "
                    "--comment=spiderflow=s1-17/1 --hold --requeue --wrap=x"});
    EXPECT_EQ(read("env"), "none\n");
    const auto asked = server.requests().at(0);
    const auto request = wire::parse<wire::PlanRequest>(asked.substr(asked.find("\r\n\r\n") + 4));
    ASSERT_TRUE(request);
    EXPECT_EQ(request->options, (wire::Names{{"begin", "now+1hour"},
                                             {"dependency", "afterok:3"},
                                             {"deadline", "tomorrow"},
                                             {"nice", ""},
                                             {"no-requeue", ""},
                                             {"hold", ""}}));
}

TEST_F(CommandTest, SubmitTakesTheScriptFromStandardInputAndGivesItOn) {
    const Server server(broker(), slurm.socket);
    const std::string script = "#!/bin/sh\n#SBATCH --spiderflow=" + spec + "\necho\n";
    EXPECT_EQ(run({"submit", "--parsable"}, script).status, 0);
    EXPECT_EQ(read("stdin"), script);
}

TEST_F(CommandTest, SubmitDropsThePlanAndKeepsTheStatusWhenSbatchFails) {
    slurm.tool("sbatch", "exit 3");
    const Server server(broker(), slurm.socket);
    EXPECT_EQ(run({"submit", "--spiderflow=" + spec, "--wrap=x"}).status, 3);
    EXPECT_TRUE(saw(server, "POST /v1/jobs/s1-17/drop "));
    EXPECT_FALSE(saw(server, "POST /v1/jobs/s1-17/place "));
}

TEST_F(CommandTest, SubmitWithWaitPlacesWhileSbatchWaitsAndKeepsTheJobsStatus) {
    slurm.tool("sbatch",
               ": >$here/submitted; i=0; "
               "while [ $i -lt 300 ] && ! grep -q scontrol $here/calls; do i=$((i+1)); sleep 0.1; done; "
               "grep -q scontrol $here/calls && exit 9; exit 1");
    const Server server(broker(), slurm.socket);
    EXPECT_EQ(run({"submit", "--spiderflow=" + spec, "--wait", "--wrap=x"}).status, 9);
    EXPECT_TRUE(saw(server, "POST /v1/jobs/s1-17/place "));
}

TEST_F(CommandTest, SubmitWithTestOnlyShowsThePlanAndPlacesNothing) {
    reply.id.clear();
    const Server server(broker(), slurm.socket);
    const auto ended = run({"submit", "--spiderflow=" + spec, "--test-only", "--wrap=x"});
    EXPECT_EQ(ended.status, 0);
    EXPECT_NE(ended.err.find("s2"), std::string::npos);
    EXPECT_EQ(read("env"), "test-only s1\n");
    EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(CommandTest, SubmitMisusedNeverAsksAnyone) {
    const Server server(broker(), slurm.socket);
    EXPECT_EQ(run({"submit", "--wrap=x"}).status, misused);
    EXPECT_EQ(run({"submit", "--spiderflow", "off", "--wrap=x"}).status, misused);
    EXPECT_EQ(run({"submit", "--spiderflow", spec, "--mail-user=me", "x.sh"}).status, misused);
    EXPECT_EQ(run({"submit", "--spiderflow", spec, "--wrap=x", "x.sh"}).status, misused);
    EXPECT_EQ(run({"submit", "--spiderflow", spec, "--array=1-2", "--wrap=x"}).status, failed);
    EXPECT_EQ(server.connections(), 0);
    EXPECT_TRUE(slurm.calls("sbatch").empty());
}

TEST_F(CommandTest, TheHookGivesThePluginItsLines) {
    const Server server(broker(), slurm.socket);
    const auto planned = run({"hook", "plan"}, "spec " + spec + "\noption nodes 2\n");
    EXPECT_EQ(planned.status, 0);
    EXPECT_EQ(planned.out,
              "id s1-17\nsay 2 stages over s1, s2\noption nodes 1\noption comment spiderflow=s1-17/1\n"
              "option hold \nenv SLURM_SPIDERFLOW_SITE s1\n");
    EXPECT_EQ(planned.err, "");
    slurm.file("a%b", "");
    const auto staged =
        run({"hook", "plan"}, "spec " + spec + ",stage=a%25b\noption chdir " + slurm.folder.string() + "\n");
    const auto kept = "keep directory " + slurm.folder.string() + "\nkeep stage a%2525b\n";
    EXPECT_TRUE(staged.out.ends_with(kept)) << staged.out;
    EXPECT_EQ(read_place_lines("directory /d\nstage a%25b\n")->travelling, (Travelling{"/d", {"a%b"}}));
    slurm.file("submitted", "");
    const auto placed = run({"hook", "place", "s1-17"}, "arg a\nexport NONE\n");
    EXPECT_EQ(placed.status, 0);
    EXPECT_EQ(placed.out, "say job s1-17: s1 job 7, s2 job 3; follow it with: spiderflow status s1-17\n");
    EXPECT_EQ(run({"hook", "drop", "s1-17"}).status, 0);
    EXPECT_TRUE(saw(server, "POST /v1/jobs/s1-17/drop "));
}

TEST_F(CommandTest, TheHookFailsByOneFailLine) {
    const auto dead = run({"hook", "plan"}, "spec " + spec + "\n");
    EXPECT_EQ(dead.status, 1);
    EXPECT_TRUE(dead.out.starts_with("fail broker: cannot reach "));
    EXPECT_EQ(std::count(dead.out.begin(), dead.out.end(), '\n'), 1);
    EXPECT_EQ(run({"hook", "plan"}, "spec " + spec + "\noption array 0-1\n")
                  .out.find("fail --array is not possible"),
              0u);
    EXPECT_EQ(run({"hook", "plan"}, "spec gbs=8\n").out.find("fail "), 0u);
}

TEST_F(CommandTest, TheHookDoesNothingWhenItIsSwitchedOff) {
    EXPECT_EQ(run({"hook", "plan"}, "spec off\n").out, "");
    ::setenv("SLURM_SPIDERFLOW", "off", 1);
    EXPECT_EQ(run({"hook", "plan"}, "spec \n").status, 0);
    ::unsetenv("SLURM_SPIDERFLOW");
}

TEST_F(CommandTest, ATestOnlyHookSaysTheWholePlan) {
    const Server server(broker(), slurm.socket);
    const auto said = run({"hook", "plan"}, "spec " + spec + "\ntest-only\n").out;
    EXPECT_GT(util::split(said, '\n').size(), 8u) << said;
    EXPECT_NE(said.find("\nsay site "), std::string::npos) << said;
}

TEST_F(CommandTest, PlanWithTheBrokerLeavesNothingBehind) {
    const Server server(broker(), slurm.socket);
    const auto shown = run({"plan", spec, "--json"});
    EXPECT_EQ(shown.status, 0);
    const auto json = model::parse_json(shown.out);
    ASSERT_TRUE(json);
    EXPECT_EQ(model::text_at(*json, "outcome"), "planned");
    EXPECT_NE(server.requests().at(0).find(R"("test_only":true)"), std::string::npos);
    EXPECT_TRUE(saw(server, "POST /v1/jobs/s1-17/drop "));
}

TEST_F(CommandTest, PlanOfflineAsksNobody) {
    const auto sites =
        slurm.file("f.json", R"({"sites":[{"name":"a","gpu":"h100","nodes":1,"gpus_per_node":2},)"
                             R"({"name":"b","gpu":"h100","nodes":1,"gpus_per_node":2}],)"
                             R"("bw_gbps":[[null,10],[10,null]],"rtt_ms":[[null,5],[5,null]]})");
    const auto shown = run({"plan", "--model", model, "--gbs", "16", "--federation", sites, "--json"});
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_EQ(model::text_at(*model::parse_json(shown.out), "outcome"), "planned");
    const auto none =
        run({"plan", "--model", model, "--gbs", "16", "--federation", sites, "--pp", "8", "--tp", "4"});
    EXPECT_EQ(none.status, failed);
    EXPECT_EQ(none.out, "");
    EXPECT_EQ(run({"plan", spec, "--seed", "3"}).status, misused);
    EXPECT_EQ(run({"plan", spec, "--federation", sites, "--planner", "x"}).status, misused);
}

TEST_F(CommandTest, StatusListsAndShows) {
    wire::JobView job{"s1-17",
                      "alice",
                      "train\x1b",
                      "running",
                      "",
                      1,
                      1700000000,
                      "line",
                      {},
                      {{"s1", 12, "RUNNING", 1, 2, "0", "/o1"}, {"s2", 0, "", 1, 2, "1", ""}},
                      {{1700000000, "asked", "why so"}}};
    const Server server(
        [&](const std::string &request) {
            if (request.starts_with("GET /v1/jobs "))
                return answer(model::print_json(to_json(wire::JobList{{job}})));
            if (request.starts_with("GET /v1/jobs/s1-17 ")) return answer(model::print_json(to_json(job)));
            return answer(R"({"error":"no job"})", "404 Not Found");
        },
        slurm.socket);
    const auto list = run({"status"}).out;
    EXPECT_TRUE(list.starts_with("ID ")) << list;
    EXPECT_NE(list.find("s1-17  alice  train?  running  s1,s2      2     4 "), std::string::npos) << list;
    const auto one = run({"status", "s1-17"}).out;
    for (const auto *text : {"RUNNING", "/o1", "why so", "alice"})
        EXPECT_NE(one.find(text), std::string::npos) << text;
    EXPECT_EQ(*wire::parse<wire::JobView>(run({"status", "s1-17", "--json"}).out), job);
    EXPECT_EQ(run({"status", "s1-18"}).err, "spiderflow: no job\n");
}

TEST_F(CommandTest, StatusSaysWhatWaitingCostAndWhenPartsAreExpected) {
    wire::JobView job{.id = "s1-17", .user = "alice", .name = "train", .state = "holding"};
    job.reason =
        "site s2: job 9 is PENDING (Resources), expected at 12:30; GPUs at s1 were given back twice, and "
        "the next turn comes in 4 minutes";
    job.attempt = 2, job.submitted = 1700000000;
    job.parts = {{"s1", 12, "PENDING (JobHeldUser)", 1, 2, "0"}, {"s2", 9, "PENDING (Resources)", 1, 2, "1"}};
    const Server server(
        [&](const std::string &request) {
            return answer(request.starts_with("GET /v1/jobs ")
                              ? model::print_json(to_json(wire::JobList{{job}}))
                              : model::print_json(to_json(job)));
        },
        slurm.socket);
    const auto shows = [&](const std::string &text) {
        const auto out = run({"status", "s1-17"}).out;
        return out.find(text) != std::string::npos;
    };
    EXPECT_TRUE(shows("\nAttempt    2\n")) << "of a broker that says no more";
    EXPECT_FALSE(shows("\nIdle "));
    EXPECT_FALSE(shows("EXPECTED"));
    EXPECT_TRUE(shows("\nState      holding: " + job.reason + "\n"));
    job.attempts = 3, job.on_failure = "retry", job.idle_gpu_seconds = 411.6, job.turns = 2;
    job.parts[1].expected_start = 1700000300;
    EXPECT_TRUE(shows("\nAttempt    2 of 3 (on_failure retry)\n"));
    EXPECT_TRUE(shows("\nIdle       412 GPU-seconds at the rendezvous, given back 2 times\n"));
    EXPECT_TRUE(shows("  STAGES  EXPECTED\n"));
    EXPECT_TRUE(shows("PENDING (JobHeldUser)      1     2  0       -\n"));
    EXPECT_TRUE(shows("PENDING (Resources)        1     2  1       " + util::local_time(1700000300) + "\n"));
    job.on_failure = "cancel", job.attempt = 1, job.turns = 0, job.idle_gpu_seconds = 1234567.4;
    EXPECT_TRUE(shows("\nAttempt    1 (on_failure cancel)\n"));
    EXPECT_TRUE(shows("\nIdle       1234567 GPU-seconds at the rendezvous\n"));
    job.turns = 1;
    EXPECT_TRUE(shows(", given back once\n"));
    const auto list = run({"status"}).out;
    EXPECT_TRUE(list.ends_with("  " + job.reason + "\n")) << "whole, at the end of its line: " << list;
}

TEST_F(CommandTest, CancelTriesThemAllAndTellsTheTruth) {
    const Server server(
        [](const std::string &request) {
            if (request.starts_with("DELETE /v1/jobs/s1-2 "))
                return answer(R"({"id":"s1-2","state":"ending"})");
            return answer(R"({"error":"not yours"})", "403 Forbidden");
        },
        slurm.socket);
    EXPECT_EQ(run({"cancel", "s1-2"}).status, 0);
    EXPECT_EQ(run({"cancel", "s1-1", "s1-2"}).status, 1);
    EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(CommandTest, SitesShowsTroubleAndLinks) {
    const wire::SitesView view{
        "s1",
        {{"s1", "ACTIVE", 4, 3, 16, 12, "h100", 1, true, "nodes: HTTP 503", "v0.0.38"}},
        {{"s1", "s2", 10, 25.5}}};
    const Server server([&](const std::string &) { return answer(model::print_json(to_json(view))); },
                        slurm.socket);
    const auto shown = run({"sites"}).out;
    for (const auto *text :
         {"s1*", "ACTIVE (stale)", "3/4", "12/16", "nodes: HTTP 503", "s1    s2      10    25.5"})
        EXPECT_NE(shown.find(text), std::string::npos) << text << "\n" << shown;
    EXPECT_EQ(*wire::parse<wire::SitesView>(run({"sites", "--json"}).out), view);
}

} // namespace
} // namespace spider::cli
