// SPDX-License-Identifier: GPL-3.0-or-later
#include "unit/http_server.h"
#include "util/clock.h"
#include "wire/client.h"
#include "wire/limits.h"
#include "wire/messages.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace spider::wire {
namespace {

using test::answer;
using test::Server;

Plan small_plan() {
    Plan plan;
    plan.outcome = Outcome::planned;
    plan.reason = "two sites";
    plan.pp = 2;
    plan.stages = {{0, 3, 2, 0.1, 0.2, 1e9}, {4, 7, 1, 0.1, 0.2, 1e9}};
    plan.parts = {{"s1", "h100", {{{0, 0}}}}, {"s2", "h100", {{{1, 0}}}}};
    plan.search = {"simple", 0.01, 3, 1};
    return plan;
}

JobSpec small_spec() {
    JobSpec spec;
    spec.model_name = "config.json";
    spec.model = {"GPT2LMHeadModel", 8, 64, 256, 4, 4, 16, 256, 128, false, true};
    spec.sequence = 128;
    spec.global_batch = 16;
    spec.sites = {"s1", "s2"};
    spec.pp = 2;
    spec.limits.max_nodes = 4;
    return spec;
}

JobView small_job() {
    return {"s1-17",
            "alice",
            "train",
            "running",
            "all parts run",
            1,
            1700000000,
            "2 stages over s1, s2",
            small_plan(),
            {{"s1", 12, "RUNNING", 1, 2, "0", "/home/alice/slurm-12.out"},
             {"s2", 0, "PENDING", 1, 2, "1", "", "", 1700000300.5, 2}},
            {{1700000000, "asked", ""}, {1700000001.5, "planned", "found"}},
            3,
            "retry",
            412.5,
            2};
}

template <class T>
T there_and_back(const T &message) {
    const auto text = model::print_json(to_json(message));
    auto back = parse<T>(text);
    EXPECT_TRUE(back) << (back ? "" : back.error().what) << "\n" << text;
    return back ? *back : T{};
}

TEST(Messages, EveryMessageComesBackAsItWasSent) {
    const PlanRequest plan{small_spec(),
                           {{"comment", "my | own"}, {"exclusive", ""}, {"time", "1:00:00"}},
                           "/home/alice/run",
                           true};
    EXPECT_EQ(there_and_back(plan), plan);
    const PlanReply reply{
        "s1-17", small_plan(), "line", {{"nodes", "2"}, {"hold", ""}}, {{"A", "x=y"}, {"B", "1\n2"}}};
    EXPECT_EQ(there_and_back(reply), reply);
    const PlaceRequest place{123,
                             "#!/bin/sh\nexit\n",
                             {"a b", ""},
                             {{"E", "1"}},
                             027,
                             {"QUJD\nRA==\n", std::string(64, 'a')},
                             {{"pyxis_container_image", "a#b"}}};
    EXPECT_EQ(there_and_back(place), place);
    const PlaceReply placed{{{"s1", 123}, {"s2", 5'000'000'000}}};
    EXPECT_EQ(there_and_back(placed), placed);
    EXPECT_EQ(there_and_back(small_job()), small_job());
    const JobList jobs{{small_job(), {.id = "s1-18", .state = "asked"}}};
    EXPECT_EQ(there_and_back(jobs), jobs);
    EXPECT_EQ(there_and_back(JobList{}), JobList{});
    const SitesView sites{"s1",
                          {{"s1", "ACTIVE", 4, 3, 16, 12, "h100", 1700000000, true, "no answer", "v0.0.38"}},
                          {{"s1", "s2", 10, 25.5}}};
    EXPECT_EQ(there_and_back(sites), sites);
}

TEST(Messages, LinksSurviveJson) {
    LinkState link{.from = "s1", .to = "s2", .gbps = 1.5, .gbps_median = 2, .rtt_ms = 25};
    link.rtt_min_ms = 24, link.rtt_p95_ms = 30, link.streams = 4, link.source = "probe", link.samples = 3;
    link.measured_at = 1700000000, link.reserved_gbps = 0.5, link.trouble = "no answer";
    link.next_due = 1700003600, link.testing = true;
    const LinksView links{1700000060, 86400, {link, {.from = "s2", .to = "s1"}}};
    EXPECT_EQ(there_and_back(links), links);
    const MeasureRequest measure{"s1", "s2"};
    EXPECT_EQ(there_and_back(measure), measure);
    const ImportRequest import{{{.from = "s1", .to = "s2", .at = 1700000000, .gbps = 1.5}}};
    EXPECT_EQ(there_and_back(import), import);
    EXPECT_EQ(there_and_back(ImportReply{7}), ImportReply{7});
    EXPECT_EQ(parse<LinksView>(R"({"links":[{"from":"s1"}]})").error().what, "links: to: missing");
    EXPECT_FALSE(parse<ImportRequest>(R"({"samples":[{"from":"s1","to":"s2","gbps":"fast"}]})"));
    EXPECT_FALSE(parse<MeasureRequest>(R"({"from":"s1"})"));
}

TEST(Messages, KeysAreThoseOfTheInterface) {
    const PlaceRequest place{123, "#!", {"a"}, {{"E", "1"}}, 18};
    EXPECT_EQ(model::print_json(to_json(place)),
              R"({"home_job":123,"script":"#!","args":["a"],"environment":{"E":"1"},"umask":18,)"
              R"("stage":{"base64":"","sha256":""},"spank_options":{}})");
    const SitesView sites{"s1", {}, {{"s1", "s2", 10, 25.5}}};
    EXPECT_EQ(
        model::print_json(to_json(sites)),
        R"({"home":"s1","sites":[],"links":[{"from":"s1","to":"s2","bandwidth_gbps":10.0,"rtt_ms":25.5}]})");
    EXPECT_EQ(model::print_json(error_json("a \"b\"")), R"({"error":"a \"b\""})");
    const auto reply = to_json(PlanReply{"s1-1", small_plan(), "l", {{"nodes", "2"}}, {{"A", "1"}}});
    EXPECT_EQ(model::print_json(reply["options"]), R"([["nodes","2"]])");
    EXPECT_EQ(model::print_json(reply["env"]), R"([["A","1"]])");
}

TEST(Messages, AnOlderBrokersAnswerIsStillRead) {
    const auto job = parse<JobView>(
        R"({"id":"s1-17","user":"alice","name":"n","state":"running","reason":"","attempt":1,"submitted":17,)"
        R"("line":"l","parts":[{"site":"s1","job":12,"state":"RUNNING","nodes":1,"gpus":2,"stages":"0",)"
        R"("output":"/o","error":"/e"}],"history":[]})");
    ASSERT_TRUE(job) << job.error().what;
    EXPECT_EQ(job->attempts, 0);
    EXPECT_EQ(job->on_failure, "");
    EXPECT_EQ(job->idle_gpu_seconds, 0);
    EXPECT_EQ(job->turns, 0);
    EXPECT_EQ(job->parts.at(0).expected_start, 0);
    EXPECT_EQ(job->parts.at(0).restarts, 0);
    EXPECT_EQ(job->parts.at(0).error, "/e");
}

TEST(Messages, WhatWaitingCostsHasItsKeys) {
    const auto json = to_json(small_job());
    EXPECT_EQ(
        model::print_json(Json{json["attempts"], json["on_failure"], json["idle_gpu_seconds"], json["turns"],
                               json["parts"][1]["expected_start"], json["parts"][1]["restarts"]}),
        R"([3,"retry",412.5,2,1700000300.5,2])");
    const auto complaint = [](const std::string &more) {
        return parse<JobView>(R"({"id":"s1-1","state":"holding",)" + more + "}").error().what;
    };
    EXPECT_EQ(complaint(R"("turns":1.5)"), "turns: expected a whole number");
    EXPECT_EQ(complaint(R"("idle_gpu_seconds":"9")"), "idle_gpu_seconds: expected a number");
    EXPECT_EQ(complaint(R"("on_failure":3)"), "on_failure: expected a string");
    EXPECT_EQ(complaint(R"("parts":[{"site":"s1","restarts":"1"}])"),
              "parts: restarts: expected a whole number");
}

TEST(Messages, MalformedOnesNameTheKey) {
    const auto complaint = [](std::string_view body) {
        const auto read = parse<PlaceRequest>(body);
        return read ? std::string("accepted") : read.error().what;
    };
    EXPECT_EQ(complaint(R"({"script":"x"})"), "home_job: missing");
    EXPECT_EQ(complaint(R"({"home_job":"7","script":"x"})"), "home_job: expected a whole number");
    EXPECT_EQ(complaint(R"({"home_job":0,"script":"x"})"), "home_job: expected the id of a job");
    EXPECT_EQ(complaint(R"({"home_job":18446744073709551615,"script":"x"})"), "home_job: out of range");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":["x"]})"), "script: expected a string");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"a\u0000b"})"), "script: contains a NUL");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"x","args":[1]})"), "args: expected strings without NUL");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"x","environment":{"A=B":"1"}})"),
              "environment: expected names and strings without NUL");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"x","environment":{"A":1}})"),
              "environment: expected names and strings without NUL");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"x","umask":512})"), "umask: out of range");
    const auto stage = [&](const std::string &base64, const std::string &sha256) {
        return complaint(R"({"home_job":7,"script":"x","stage":{"base64":")" + base64 + R"(","sha256":")" +
                         sha256 + "\"}}");
    };
    EXPECT_EQ(stage("QUJD", std::string(64, '0')), "accepted");
    EXPECT_EQ(stage("QU'D", std::string(64, '0')), "stage: base64: expected base64");
    EXPECT_EQ(stage("", std::string(64, '0')), "stage: base64: expected base64");
    EXPECT_EQ(stage("QUJD", "$(id)"), "stage: sha256: expected 64 hexadecimal digits");
    EXPECT_EQ(complaint("[]"), "expected a JSON object");
    EXPECT_EQ(complaint(R"({"home_job":7,"script":"x"})"), "accepted");
    EXPECT_FALSE(parse<PlaceRequest>("{"));
    EXPECT_FALSE(parse<PlanRequest>(R"({"spec":{},"cwd":"/"})"));
    EXPECT_FALSE(parse<PlanRequest>(R"({"cwd":"/"})"));
    EXPECT_FALSE(parse<PlanReply>(R"({"id":"s1-1","plan":{},"options":[["a"]]})"));
    EXPECT_FALSE(parse<JobList>(R"({"jobs":{}})"));
    EXPECT_EQ(parse<JobList>(R"({"jobs":[{"state":"done"}]})").error().what, "jobs: id: missing");
    EXPECT_FALSE(parse<SitesView>(R"({"sites":[{}]})"));
}

TEST(Messages, AnErrorKeepsItsKindOverHttp) {
    for (const auto code :
         {Errc::invalid, Errc::denied, Errc::not_found, Errc::refused, Errc::unreachable, Errc::timeout})
        EXPECT_EQ(errc_of_status(http_status(code)), code);
    EXPECT_EQ(http_status(Errc::refused), 409);
    EXPECT_EQ(errc_of_status(418), Errc::protocol);
}

TEST(Messages, OnlyAnIdGoesIntoAPath) {
    for (const auto *good : {"s1-17", "my-site_a.b-1"})
        EXPECT_TRUE(valid_job_id(good)) << good;
    for (const auto *bad : {"", "17", "s1", "s1-", "-1", "s1-1x", "../s1-1", "s1-1?all=1", "s 1-1", "s1-1\n"})
        EXPECT_FALSE(valid_job_id(bad)) << bad;
}

TEST(LimitsOf, EveryFormOfTheOptionsIsUnderstood) {
    const auto nodes = [](const char *text) {
        const auto limits = limits_of({{"nodes", text}});
        return limits ? limits->max_nodes : -1;
    };
    EXPECT_EQ(nodes("2"), 2);
    EXPECT_EQ(nodes("2-4"), 4);
    EXPECT_EQ(nodes("2,4,8"), 8);
    EXPECT_EQ(nodes("1-10:2"), 10);
    EXPECT_EQ(nodes("1k"), 1000);
    for (const auto *bad : {"", "0", "x", "2-", "-", "1,x"})
        EXPECT_EQ(nodes(bad), -1) << bad;
    const auto gpus = [](const char *option, const char *text) {
        const auto limits = limits_of({{option, text}});
        return limits ? limits->max_gpus_per_node : -1;
    };
    for (const auto *text : {"gpu:4", "gpu:a100:4", "gres:gpu:4", "gres/gpu:a100:4", "gres/gpu=4",
                             "gpu:a100:4(S:0)", "lustre:1,gpu:4", "gpu:a100:1,gpu:h100:3"})
        EXPECT_EQ(gpus("gres", text), 4) << text;
    EXPECT_EQ(gpus("gres", "gpu"), 1);
    EXPECT_EQ(gpus("gres", "gpu:a100"), 1);
    EXPECT_EQ(gpus("gres", "lustre:7"), 0);
    EXPECT_EQ(gpus("gres", "gpu:a100:x"), -1);
    EXPECT_EQ(gpus("gpus-per-node", "2"), 2);
    EXPECT_EQ(gpus("gpus-per-node", "h100:2"), 2);
}

TEST(LimitsOf, TheTighterOfTwoOptionsCounts) {
    const auto limits =
        limits_of({{"gres", "gpu:4"}, {"gpus-per-node", "2"}, {"ntasks", "8"}, {"ntasks-per-node", "4"}});
    ASSERT_TRUE(limits);
    EXPECT_EQ(*limits, (Limits{0, 2, 8, 4}));
    EXPECT_EQ(*limits_of({}), Limits{});
    EXPECT_EQ(limits_of({{"ntasks", "many"}}).error().what, "--ntasks=many: expected a number above 0");
}

struct ClientTest : testing::Test {
    std::string folder = testing::TempDir() + "wire" + std::to_string(::getpid());
    std::string socket = folder + "/s";
    ClientTest() { std::filesystem::create_directories(folder); }
    ~ClientTest() override { std::filesystem::remove_all(folder); }
};

TEST_F(ClientTest, TheRequestIsWhatTheBrokerExpects) {
    const PlaceReply placed{{{"s1", 12}, {"s2", 8}}};
    const Server broker([&](const std::string &) { return answer(model::print_json(to_json(placed))); },
                        socket);
    Client client(socket);
    const PlaceRequest request{
        12, "#!/bin/sh\n" + std::string(2 << 20, '#') + "\n", {"x"}, {{"A", "1"}}, 022};
    const auto reply = client.place("s1-17", request);
    ASSERT_TRUE(reply) << reply.error().what;
    EXPECT_EQ(*reply, placed);
    const auto seen = broker.requests().at(0);
    EXPECT_TRUE(seen.starts_with("POST /v1/jobs/s1-17/place HTTP/1.1\r\n"));
    const auto body = parse<PlaceRequest>(seen.substr(seen.find("\r\n\r\n") + 4));
    ASSERT_TRUE(body);
    EXPECT_EQ(*body, request);
}

TEST_F(ClientTest, MethodsAndPathsAreThoseOfTheInterface) {
    const Server broker(
        [&](const std::string &request) {
            if (request.starts_with("GET /v1/jobs?all=1 ")) return answer(R"({"jobs":[]})");
            if (request.starts_with("DELETE /v1/jobs/s1-2 "))
                return answer(R"({"id":"s1-2","state":"ending"})");
            if (request.starts_with("POST /v1/jobs/s1-2/drop ")) return answer("{}");
            if (request.starts_with("GET /v1/version ")) return answer(R"({"version":"0.1.0"})");
            return answer(R"({"error":"what?"})", "404 Not Found");
        },
        socket);
    Client client(socket);
    EXPECT_TRUE(client.jobs(true));
    EXPECT_EQ(client.cancel("s1-2")->state, "ending");
    EXPECT_TRUE(client.drop("s1-2"));
    EXPECT_EQ(*client.version(), "0.1.0");
    EXPECT_EQ(client.job("s1-9").error(), (Error{Errc::not_found, "what?"}));
}

TEST_F(ClientTest, TheBrokersOwnWordsComeThroughAsOneLine) {
    const Server broker(
        [&](const std::string &) {
            return answer(R"({"error":"site s2: no\nsuch partition"})", "409 Conflict");
        },
        socket);
    Client client(socket);
    EXPECT_EQ(client.plan({small_spec(), {}, "/", false}).error(),
              (Error{Errc::refused, "site s2: no such partition"}));
}

TEST_F(ClientTest, NonsenseOnTheSocketIsAnError) {
    std::string text = answer("<html>", "502 Bad Gateway");
    const Server broker([&](const std::string &) { return text; }, socket);
    Client client(socket);
    EXPECT_EQ(client.sites().error().what, "broker: GET /v1/sites: HTTP 502");
    text = answer("<html>");
    EXPECT_EQ(client.sites().error().code, Errc::protocol);
    text = "";
    EXPECT_EQ(client.sites().error().code, Errc::protocol);
}

TEST_F(ClientTest, ADeadBrokerIsOneLineWithTheCure) {
    EXPECT_EQ(Client(socket).sites().error(),
              (Error{Errc::unreachable,
                     "broker: cannot reach " + socket +
                         ": No such file or directory; is spiderflowd running? (systemctl status "
                         "spiderflowd)"}));
    {
        const Server gone([](const std::string &) { return std::string(); }, socket);
    }
    const auto refused = Client(socket).sites().error();
    EXPECT_EQ(refused.code, Errc::unreachable);
    EXPECT_NE(refused.what.find(": Connection refused;"), std::string::npos) << refused.what;
}

TEST_F(ClientTest, AHungBrokerIsLeftAtTheDeadline) {
    std::mutex hang;
    std::unique_lock hold(hang);
    const Server broker(
        [&](const std::string &) {
            const std::lock_guard wait(hang);
            return answer("{}");
        },
        socket);
    const util::SystemClock clock;
    const auto began = clock.elapsed();
    EXPECT_EQ(Client(socket).sites(0.2).error().code, Errc::timeout);
    EXPECT_LT(clock.elapsed() - began, 2);
    hold.unlock();
}

TEST_F(ClientTest, AWrongIdNeverReachesTheBroker) {
    const Server broker([](const std::string &) { return answer("{}"); }, socket);
    EXPECT_EQ(Client(socket).drop("../../metrics").error().code, Errc::invalid);
    EXPECT_EQ(broker.connections(), 0);
}

} // namespace
} // namespace spider::wire
