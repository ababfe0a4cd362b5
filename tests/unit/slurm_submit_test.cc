// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/api.h"
#include "unit/slurm_replies.h"
#include "util/text.h"

#include <cstdlib>
#include <filesystem>

namespace spider::slurm {
namespace {

using test::api;
using test::body_of;
using test::contains;
using test::recorded;

TEST(Submit, HeldIsSuccessAndSoIsNothingToSay) {
    auto held = api()->read_submit(recorded("38-submit-resp.json"));
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(held->job, 3);
    EXPECT_EQ(held->trouble, "");
    auto proxied = api()->read_submit(recorded("proxy-slurm-as-alice.json"));
    ASSERT_TRUE(proxied.ok());
    EXPECT_EQ(proxied->job, 9);
    EXPECT_EQ(api()->read_submit(recorded("proxy-root-as-alice.json"))->job, 8);
    EXPECT_GT(api()->read_submit(recorded("proxy-alice-as-alice.json"))->job, 0);
}

TEST(Submit, AJobThatWillNotRunComesWithItsIdAndTheSitesWords) {
    auto large = api()->read_submit(recorded("err-too-many-nodes.json"));
    ASSERT_TRUE(large.ok());
    EXPECT_EQ(large->job, 6);
    EXPECT_EQ(large->trouble, "Requested partition configuration not available now (2015)");
}

TEST(Submit, RefusalsAreTheSitesOwnWords) {
    struct Case {
        const char *file;
        int status;
        Errc code;
        const char *words;
    };
    for (const Case &one :
         {Case{"err-too-many-gpus.json", 500, Errc::refused,
               "Requested node configuration is not available (2014)"},
          Case{"err-no-script.json", 500, Errc::refused, "Job script not specified (2009)"},
          Case{"err-no-env.json", 400, Errc::refused, "environment must be set (2127)"},
          Case{"err-bad-field.json", 400, Errc::refused, "Unknown key \"nodez\""},
          Case{"err-bad-type.json", 400, Errc::refused,
               "Invalid node count string; Unable to process key \"nodes\""},
          Case{"err-bad-json.json", 400, Errc::refused, "Unable to parse query."},
          Case{"err-content-type.json", 400, Errc::refused, "Unable to parse query."},
          Case{"38-submit-rejected-by-plugin.json", 500, Errc::refused, "job_submit plugin"},
          Case{"proxy-bob-as-alice.json", 500, Errc::unreachable, "not allowed to name this user"},
          Case{"proxy-sfrest-as-alice.json", 500, Errc::unreachable, "Zero Bytes were transmitted"}}) {
        auto refused = api()->read_submit(recorded(one.file, one.status));
        ASSERT_FALSE(refused.ok()) << one.file;
        EXPECT_EQ(refused.error().code, one.code) << one.file;
        EXPECT_TRUE(refused.error().what.starts_with("submit: HTTP ")) << refused.error().what;
        EXPECT_TRUE(contains(refused.error().what, one.words)) << refused.error().what;
        EXPECT_EQ(refused.error().what.find('\n'), std::string::npos) << refused.error().what;
    }
    EXPECT_EQ(api()->read_submit({200, R"({"errors":[]})", 0}).error().code, Errc::protocol);
    EXPECT_EQ(api()->read_submit({200, R"({"errors":[],"job_id":0})", 0}).error().code, Errc::protocol);
    EXPECT_EQ(api()->read_submit({200, "", 0}).error().code, Errc::protocol);
}

TEST(Update, IsGoodOnlyWithoutErrors) {
    for (const char *file : {"38-update-resp.json", "38-release-resp.json", "38-update-nodes-resp.json"})
        EXPECT_TRUE(api()->read_update(recorded(file)).ok()) << file;
    auto refused = api()->read_update(recorded("38-release-prio-resp.json", 200)); // HTTP 200 is no success
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::refused);
    EXPECT_TRUE(contains(refused.error().what, "Priority too large")) << refused.error().what;
    EXPECT_FALSE(api()->read_update({500, R"({"errors":[]})", 0}).ok());
}

TEST(Update, SaysAllAtOnceAndNothingElse) {
    const auto call = api()->update(7, {.hold = false});
    EXPECT_EQ(call.method, "POST");
    EXPECT_EQ(call.path, "/slurm/v0.0.38/job/7");
    EXPECT_EQ(call.body, R"({"hold":false})");
    EXPECT_EQ(api()->update(7, {.hold = true}).body, R"({"hold":true})");
    const std::string text = "my \"own\" | \n spiderflow=s1-17/1 go=10.77.1.1/29501 run=0";
    EXPECT_EQ(body_of(api()->update(7, {.comment = text})), (model::Json{{"comment", text}}));
    EXPECT_EQ(body_of(api()->update(7, {.comment = text, .hold = false, .begin_now = true})),
              (model::Json{{"comment", text}, {"hold", false}, {"begin_time", "now"}}));
    EXPECT_EQ(body_of(api()->update(7, {.comment = ""})), (model::Json{{"comment", ""}}));
}

TEST(Cancel, OfAJobThatIsGoneIsDone) {
    EXPECT_EQ(api()->cancel(7).method, "DELETE");
    EXPECT_EQ(api()->cancel(7).path, "/slurm/v0.0.38/job/7");
    auto asked = api()->read_cancel(recorded("38-cancel-resp.json"));
    ASSERT_TRUE(asked.ok());
    EXPECT_EQ(*asked, Cancelled::asked);
    auto unknown = api()->read_cancel(recorded("38-cancel-unknown.json", 500));
    ASSERT_TRUE(unknown.ok());
    EXPECT_EQ(*unknown, Cancelled::already_gone);
    auto stranger = api()->read_cancel(
        {500, R"({"errors":[{"error_number":2002,"error":"Access/permission denied"}]})", 0});
    ASSERT_FALSE(stranger.ok());
    EXPECT_EQ(stranger.error().code, Errc::denied);
    EXPECT_FALSE(api()->read_cancel({404, "", 0}).ok()); // the job may well be there
}

Submission part() {
    Submission made;
    made.script = "#!/bin/bash\nsrun train\n";
    made.name = "gpt";
    made.directory = "/home/sfalice";
    made.environment = {{"PATH", "/usr/bin:/bin"}, {"SLURM_SPIDERFLOW_JOB", "s1-17"}};
    made.nodes = 2;
    made.tasks = 4;
    made.tasks_per_node = 2;
    return made;
}

TEST(Submit, SendsWhatIsAskedAndNothingElse) {
    const auto call = api()->submit(part());
    EXPECT_EQ(call.method, "POST");
    EXPECT_EQ(call.path, "/slurm/v0.0.38/job/submit");
    const auto json = body_of(call);
    EXPECT_EQ(model::text_at(json, "script"), part().script);
    std::vector<std::string> keys;
    for (const auto &[key, value] : json["job"].items())
        keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    // "argv" would kill slurmrestd 22.05.
    EXPECT_EQ(keys, (std::vector<std::string>{"current_working_directory", "environment", "hold", "name",
                                              "nodes", "requeue", "tasks", "tasks_per_node"}));
    EXPECT_EQ(json["job"]["nodes"], 2); // neither [2,2] nor a range
    EXPECT_EQ(json["job"]["hold"], true);
    EXPECT_EQ(json["job"]["requeue"], true);
    EXPECT_EQ(json["job"]["environment"]["SLURM_SPIDERFLOW_JOB"], "s1-17");
}

TEST(Submit, CarriesEveryField) {
    auto all = part();
    all.account = "proj";
    all.partition = "train";
    all.qos = "normal";
    all.comment = "mine spiderflow=s1-17/1";
    all.output = "out-%j";
    all.error = "err-%j";
    all.gpus_per_node = 2;
    all.gpu_type = "h100";
    all.cpus_per_task = 3;
    all.memory_per_node_mb = 0;
    all.memory_per_cpu_mb = 300;
    all.time_limit_minutes = 47;
    all.signal = "USR1@90";
    all.exclusive = "true";
    all.constraints = "h100";
    all.nice = 12;
    all.hold = false;
    const auto job = body_of(api()->submit(all))["job"];
    const model::Json expected{{"account", "proj"},
                               {"partition", "train"},
                               {"qos", "normal"},
                               {"comment", "mine spiderflow=s1-17/1"},
                               {"standard_output", "out-%j"},
                               {"standard_error", "err-%j"},
                               {"gres", "gpu:h100:2"},
                               {"cpus_per_task", 3},
                               {"memory_per_node", 0},
                               {"memory_per_cpu", 300},
                               {"time_limit", 47},
                               {"signal", "USR1@90"},
                               {"exclusive", "exclusive"}, // its schema's "true" is refused
                               {"constraints", "h100"},
                               {"nice", 12},
                               {"hold", false}};
    for (const auto &[key, value] : expected.items())
        EXPECT_EQ(model::at(job, key), value) << key;
    all.gpu_type = "";
    all.exclusive = "user";
    all.time_limit_minutes = util::unlimited_minutes;
    all.requeue = false;
    const auto other = body_of(api()->submit(all))["job"];
    EXPECT_EQ(other["no_requeue"], true); // its "requeue": false would turn it on
    EXPECT_FALSE(other.contains("requeue"));
    EXPECT_EQ(other["gres"], "gpu:2");
    EXPECT_EQ(other["exclusive"], "user");
    EXPECT_EQ(other["time_limit"], 0);
}

TEST(Submit, UsesOnlyFieldsThatTheSchemaKnows) {
    // From the job_params table of Slurm 22.05, src/plugins/openapi/v0.0.38/jobs.c; an unknown one is
    // refused.
    const std::vector<std::string> known{"account",
                                         "comment",
                                         "constraints",
                                         "cpus_per_task",
                                         "current_working_directory",
                                         "environment",
                                         "exclusive",
                                         "gres",
                                         "hold",
                                         "memory_per_cpu",
                                         "memory_per_node",
                                         "name",
                                         "nice",
                                         "nodes",
                                         "partition",
                                         "qos",
                                         "requeue",
                                         "signal",
                                         "standard_error",
                                         "standard_output",
                                         "tasks",
                                         "tasks_per_node",
                                         "time_limit"};
    auto all = part();
    all.account = all.partition = all.qos = all.comment = all.output = all.error = all.signal =
        all.constraints = "x";
    all.exclusive = "mcs";
    all.gpus_per_node = 1;
    all.nice = 1;
    all.cpus_per_task = 1;
    all.memory_per_cpu_mb = all.memory_per_node_mb = all.time_limit_minutes = 1;
    all.umask = 022;
    const auto json = body_of(api()->submit(all));
    for (const auto &[key, value] : json["job"].items())
        EXPECT_NE(std::find(known.begin(), known.end(), key), known.end()) << key;
    EXPECT_EQ(json["job"].size(), known.size());
}

TEST(Environment, IsWhatSbatchWouldHaveAdded) {
    auto asked = part();
    asked.cpus_per_task = 3;
    asked.umask = 027;
    asked.environment.emplace_back("SLURM_NTASKS_PER_NODE", "9");
    const auto environment = body_of(api()->submit(asked))["job"]["environment"];
    EXPECT_EQ(environment["SLURM_SUBMIT_DIR"], "/home/sfalice");
    EXPECT_EQ(environment["SLURM_CPUS_PER_TASK"], "3");
    EXPECT_EQ(environment["SLURM_UMASK"], "0027");
    EXPECT_EQ(environment["SLURM_NTASKS_PER_NODE"], "9"); // the caller's word stays
    EXPECT_EQ(body_of(api()->submit(part()))["job"]["environment"].count("SLURM_UMASK"), 0u);
}

// A cut or damaged answer is an error or a value, whatever is asked of it: the poll of a site goes on.
TEST(Readers, SurviveEveryPartOfEveryRecordedReply) {
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(SF_TEST_DATA "/slurmrestd")) {
        const auto whole = recorded(entry.path().filename());
        ++files;
        for (int cut = 0; cut <= 16; ++cut)
            for (const int status : {200, 500}) {
                const Reply reply{
                    status, whole.body.substr(0, whole.body.size() * static_cast<std::size_t>(cut) / 16), 0};
                const bool ok[] = {api()->read_ping(reply).ok(),   api()->read_nodes(reply).ok(),
                                   api()->read_job(reply).ok(),    api()->read_jobs(reply).ok(),
                                   api()->read_submit(reply).ok(), api()->read_update(reply).ok(),
                                   api()->read_cancel(reply).ok()};
                const auto good = std::count(std::begin(ok), std::end(ok), true);
                EXPECT_TRUE(cut > 0 || good == 0) << entry.path();
            }
    }
    EXPECT_GT(files, 40);
}

} // namespace
} // namespace spider::slurm
