// SPDX-License-Identifier: GPL-3.0-or-later
// Around a submission: what is asked before, what is sent after, and that nothing is left when it goes wrong.
#include "cli/common.h"
#include "cli/exported.h"
#include "cli/placing.h"
#include "cli/script.h"
#include "unit/fake_slurm.h"
#include "unit/http_server.h"

#include <sys/stat.h>
#include <sys/wait.h>

namespace spider::cli {
namespace {

using test::answer;
using test::Server;
using wire::Names;

struct PlaceTest : testing::Test {
    test::FakeSlurm slurm;
    std::string socket = slurm.socket;
    Submission submission{"s1-17", {"a b", "c"}, "X=1", std::nullopt};

    PlaceTest() {
        ::setenv("SQUEUE_STATES", "RUNNING", 1);
        slurm.tool("squeue", "[ \"$*\" = '--me -h -o %i|%k' ] && [ -z \"$SQUEUE_STATES\" ] && "
                             "echo '7|mine spiderflow=s1-17/1'");
        slurm.tool("scontrol", "[ \"$*\" = 'write batch_script 7 -' ] && printf '#!/bin/sh\\necho hello\\n'");
        slurm.tool("scancel", "");
    }
    ~PlaceTest() override { ::unsetenv("SQUEUE_STATES"); }
    static std::string placed(const std::string &) {
        return answer(R"({"parts":[{"site":"s1","job":7},{"site":"s2","job":3}]})");
    }
};

TEST_F(PlaceTest, EverythingTheOtherSitesNeedGoesToTheBroker) {
    const Server broker(placed, socket);
    const auto mask = ::umask(027);
    const auto said = place(socket, submission);
    ::umask(mask);
    ASSERT_TRUE(said) << said.error().what;
    EXPECT_EQ(*said, "job s1-17: s1 job 7, s2 job 3; follow it with: spiderflow status s1-17");
    const auto seen = broker.requests().at(0);
    EXPECT_TRUE(seen.starts_with("POST /v1/jobs/s1-17/place "));
    const auto request = wire::parse<wire::PlaceRequest>(seen.substr(seen.find("\r\n\r\n") + 4));
    ASSERT_TRUE(request);
    EXPECT_EQ(*request, (wire::PlaceRequest{7, "#!/bin/sh\necho hello\n", {"a b", "c"}, {{"X", "1"}}, 027}));
    EXPECT_EQ(slurm.calls("scancel").size(), 0u);
}

TEST_F(PlaceTest, WhatTravelsGoesWithIt) {
    const Server broker(placed, socket);
    slurm.file("vocab.json", "{}\n");
    submission.travelling = {slurm.folder.string(), {"vocab.json"}};
    const auto expected = pack(submission.travelling);
    ASSERT_TRUE(place(socket, submission));
    const auto seen = broker.requests().at(0);
    const auto request = wire::parse<wire::PlaceRequest>(seen.substr(seen.find("\r\n\r\n") + 4));
    ASSERT_TRUE(request);
    EXPECT_FALSE(request->stage.base64.empty());
    EXPECT_EQ(request->stage, *expected);
}

TEST_F(PlaceTest, WhatCannotTravelAnyMoreCancelsTheHomePart) {
    const Server broker([](const std::string &) { return answer("{}"); }, socket);
    submission.travelling = {slurm.folder.string(), {"gone.json"}};
    EXPECT_EQ(place(socket, submission).error(),
              (Error{Errc::invalid, "job s1-17 is cancelled: stage=gone.json: no such file"}));
    EXPECT_TRUE(broker.requests().at(0).starts_with("POST /v1/jobs/s1-17/drop "));
    EXPECT_EQ(slurm.calls("scancel 7").size(), 1u);
}

TEST_F(PlaceTest, OptionsOfOtherPluginsAreReadFromSbatchsEnvironment) {
    EXPECT_EQ(spank_options(std::vector<std::string>{
                  "_SLURM_SPANK_OPTION_pyxis_container_image=nvcr.io#x=1", "_SLURM_SPANK_OPTION_a_flag=",
                  "SLURM_SPANK__SLURM_SPANK_OPTION_a_flag=(null)", "PATH=/bin"}),
              (Names{{"pyxis_container_image", "nvcr.io#x=1"}, {"a_flag", ""}}));
}

TEST_F(PlaceTest, WithoutAHomePartThePlanIsDropped) {
    slurm.tool("squeue", "echo '7|spiderflow=s1-16/1'");
    const Server broker([](const std::string &) { return answer("{}"); }, socket);
    const auto said = place(socket, submission);
    EXPECT_EQ(said.error(), (Error{Errc::not_found, "no job was submitted; plan s1-17 is dropped"}));
    EXPECT_TRUE(broker.requests().at(0).starts_with("POST /v1/jobs/s1-17/drop "));
    EXPECT_EQ(broker.requests().size(), 1u);
}

TEST_F(PlaceTest, ARefusalCancelsTheHomePartAndKeepsTheSitesWords) {
    const Server broker(
        [](const std::string &) {
            return answer(R"({"error":"site s2: invalid partition"})", "409 Conflict");
        },
        socket);
    EXPECT_EQ(place(socket, submission).error(),
              (Error{Errc::refused, "job s1-17 is cancelled: site s2: invalid partition"}));
    EXPECT_EQ(slurm.calls("scancel 7").size(), 1u);
}

TEST_F(PlaceTest, ABrokerThatDiedMeanwhileLeavesNoHeldPart) {
    EXPECT_EQ(place(socket, submission).error().code, Errc::unreachable);
    EXPECT_EQ(slurm.calls("scancel 7").size(), 1u);
}

TEST_F(PlaceTest, ScontrolsRefusalIsSeenThoughItsStatusIsZero) {
    slurm.tool("scontrol", "echo 'job script retrieval failed: Invalid user id'");
    const Server broker([](const std::string &) { return answer("{}"); }, socket);
    const auto said = place(socket, submission);
    EXPECT_NE(said.error().what.find("job script retrieval failed: Invalid user id"), std::string::npos);
    EXPECT_TRUE(broker.requests().at(0).starts_with("POST /v1/jobs/s1-17/drop "));
    EXPECT_EQ(slurm.calls("scancel 7").size(), 1u);
}

TEST_F(PlaceTest, ASqueueThatFailsOnceIsAskedAgain) {
    slurm.tool("squeue", "[ -e $here/again ] && echo '7|spiderflow=s1-17/1' && exit; : >$here/again; "
                         "echo 'slurm_load_jobs error: timed out' >&2; exit 1");
    const Server broker(placed, socket);
    EXPECT_TRUE(place(socket, submission));
    EXPECT_EQ(slurm.calls("squeue").size(), 2u);
}

TEST_F(PlaceTest, AWaitingSbatchIsWatchedUntilItsJobAppears) {
    slurm.tool("squeue", "[ -e $here/again ] && echo '7|spiderflow=s1-17/1'; : >$here/again");
    const Server broker(placed, socket);
    submission.submitter = ::getpid();
    EXPECT_TRUE(place(socket, submission));
    EXPECT_EQ(slurm.calls("squeue").size(), 2u);
}

TEST_F(PlaceTest, AWaitingSbatchThatDiesWithoutAJobEndsThePlan) {
    slurm.tool("squeue", "");
    const Server broker([](const std::string &) { return answer("{}"); }, socket);
    const auto child = ::fork();
    if (child == 0) ::_exit(0); // a zombie until it is waited for: gone all the same
    submission.submitter = child;
    EXPECT_EQ(place(socket, submission).error().code, Errc::not_found);
    EXPECT_TRUE(broker.requests().at(0).starts_with("POST /v1/jobs/s1-17/drop "));
    ::waitpid(child, nullptr, 0);
    submission.submitter = child; // by now there is no such process
    EXPECT_EQ(place(socket, submission).error().code, Errc::not_found);
}

TEST_F(PlaceTest, AScriptIsFoundAsSbatchFindsIt) {
    const auto path = slurm.file("train.sh", "#!/bin/sh\n");
    EXPECT_EQ(read_script("train.sh")->text, "#!/bin/sh\n"); // on PATH
    EXPECT_EQ(read_script(path)->text, "#!/bin/sh\n");
    EXPECT_FALSE(read_script("no-such-script.sh"));
}

TEST_F(PlaceTest, AskingForAPlanSendsSpecLimitsAndOptions) {
    const auto config =
        slurm.file("config.json", R"({"architectures":["GPT2LMHeadModel"],"n_layer":8,"n_embd":64,)"
                                  R"("n_head":4,"n_positions":128,"vocab_size":256})");
    Plan plan;
    plan.outcome = Outcome::infeasible;
    plan.reason = "4 GB short on h100";
    const wire::PlanReply reply{"s1-1", plan, "", {}, {}};
    const Server broker([&](const std::string &) { return answer(model::print_json(to_json(reply))); },
                        socket);
    const SpecText spec{"model=" + config, "gbs=16"};
    const auto asked = ask_plan(socket, spec, {{"nodes", "2"}, {"spiderflow", "x"}, {"comment", "c"}}, true);
    EXPECT_EQ(asked.error(), (Error{Errc::refused, "no plan: 4 GB short on h100"}));
    const auto seen = broker.requests().at(0);
    const auto request = wire::parse<wire::PlanRequest>(seen.substr(seen.find("\r\n\r\n") + 4));
    ASSERT_TRUE(request) << request.error().what;
    EXPECT_EQ(request->spec.global_batch, 16);
    EXPECT_EQ(request->spec.limits.max_nodes, 2);
    EXPECT_EQ(request->options, (Names{{"nodes", "2"}, {"comment", "c"}}));
    EXPECT_EQ(request->cwd, working_directory());
    EXPECT_TRUE(request->test_only);
    EXPECT_EQ(ask_plan(socket, spec, {{"array", "1-3"}}, false).error().code, Errc::invalid);
    const SpecText staged{spec.text + ",stage=none/here", "gbs=16"};
    EXPECT_EQ(ask_plan(socket, staged, {{"chdir", "/"}}, false).error().what,
              "stage=none/here: no such file");
    EXPECT_EQ(broker.requests().size(), 1u);
}

} // namespace
} // namespace spider::cli
