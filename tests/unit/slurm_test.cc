// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/api.h"
#include "slurm/gres.h"
#include "unit/slurm_replies.h"

#include <algorithm>

namespace spider::slurm {
namespace {

using test::api;
using test::contains;
using test::recorded;

NodeView node(const std::string &fields) {
    auto nodes = api()->read_nodes({200, R"({"errors":[],"nodes":[{"name":"n1",)" + fields + "}]}", 0});
    EXPECT_TRUE(nodes.ok() && nodes->size() == 1) << fields;
    return nodes.ok() && !nodes->empty() ? nodes->front() : NodeView{};
}

TEST(Versions, AreMadeByNameNewestFirst) {
    ASSERT_FALSE(known_versions().empty());
    for (const auto version : known_versions()) {
        ASSERT_TRUE(make_api(version)) << version;
        EXPECT_EQ(make_api(version)->version(), version);
    }
    EXPECT_FALSE(make_api("v0.0.99"));
}

TEST(Requests, GoToTheEndpointInItsLaneAsTheUser) {
    const Endpoint http{"lyra", "http://10.77.1.1:6820/", "sfalice", "tok"};
    auto request = to_request(http, api()->nodes(), 7);
    EXPECT_EQ(request.url, "http://10.77.1.1:6820/slurm/v0.0.38/nodes");
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.lane, "lyra");
    EXPECT_EQ(request.timeout, 7);
    const std::vector<std::pair<std::string, std::string>> headers{{"X-SLURM-USER-NAME", "sfalice"},
                                                                   {"X-SLURM-USER-TOKEN", "tok"}};
    EXPECT_EQ(request.headers, headers);
    const Endpoint local{"lyra", "unix:/run/slurmrestd.sock", "sfalice", "tok"};
    request = to_request(local, api()->update(3, {.hold = false}), 7);
    EXPECT_EQ(request.unix_socket, "/run/slurmrestd.sock");
    EXPECT_EQ(request.url, "http://localhost/slurm/v0.0.38/job/3");
    EXPECT_EQ(request.headers.back().second, "application/json");
}

TEST(Ping, KnowsUpFromDownAndFromABadToken) {
    auto up = api()->read_ping(recorded("38-ping.json"));
    ASSERT_TRUE(up.ok());
    EXPECT_TRUE(*up);
    auto down = api()->read_ping({200, R"({"errors":[],"pings":[{"ping":"DOWN"}]})", 0});
    ASSERT_TRUE(down.ok());
    EXPECT_FALSE(*down);
    for (const char *file :
         {"err-bad-token.json", "err-ctld-down-ping.json", "err-expired-token-ping.json"}) {
        auto bad = api()->read_ping(recorded(file, 500));
        ASSERT_FALSE(bad.ok()) << file;
        EXPECT_EQ(bad.error().code, Errc::unreachable) << file;
        EXPECT_TRUE(contains(bad.error().what, "slurmctld config is unable to load")) << bad.error().what;
        EXPECT_TRUE(contains(bad.error().what, "slurmctld is down")) << bad.error().what;
        EXPECT_TRUE(contains(bad.error().what, "token")) << bad.error().what;
    }
}

TEST(Nodes, OfARealSiteAreRead) {
    auto nodes = api()->read_nodes(recorded("38-nodes.json"));
    ASSERT_TRUE(nodes.ok()) << nodes.error().what;
    ASSERT_EQ(nodes->size(), 2u);
    const auto &first = nodes->front();
    EXPECT_EQ(first.name, "s2-n1");
    EXPECT_EQ(first.address, "10.77.2.1");
    EXPECT_EQ(first.hostname, "s2-n1");
    EXPECT_EQ(first.state, "IDLE");
    EXPECT_TRUE(first.flags.empty());
    EXPECT_EQ(first.cpus, 16);
    EXPECT_EQ(first.memory_mb, 16000);
    EXPECT_EQ(first.partitions, std::vector<std::string>{"train"});
    EXPECT_EQ(first.features, (std::vector<std::string>{"h100", "s2"}));
    EXPECT_EQ(first.gpus, (std::vector<GpuCount>{{"h100", 4, 0}}));
    EXPECT_EQ(first.free_gpus(), 4);
    ASSERT_TRUE(api()->read_nodes(recorded("38-node-one.json")).ok());
}

TEST(Nodes, BusyAndDrainedOnesHaveNothingFree) {
    auto busy = api()->read_nodes(recorded("38-nodes-busy.json"));
    ASSERT_TRUE(busy.ok());
    for (const auto &one : *busy) {
        EXPECT_EQ(one.state, "MIXED");
        EXPECT_TRUE(one.usable && one.free_now);
        EXPECT_EQ(one.gpu_count(), 4);
        EXPECT_EQ(one.free_gpus(), 0);
        EXPECT_EQ(one.used_cpus, 1);
        EXPECT_EQ(one.used_memory_mb, 100);
    }
    auto drain = api()->read_nodes(recorded("38-nodes-drain.json"));
    ASSERT_TRUE(drain.ok());
    EXPECT_EQ(drain->at(0).flags, std::vector<std::string>{"DRAIN"});
    EXPECT_FALSE(drain->at(0).usable);
    EXPECT_EQ(drain->at(0).free_gpus(), 0);
    EXPECT_EQ(drain->at(1).free_gpus(), 4);
}

// H06 of the bug reports: one field, three encodings; H13: gres_used where tres_used knows no GPU.
TEST(Nodes, NumbersAreReadInEveryEncoding) {
    const std::string rest =
        R"j(,"state":"idle","gres":"gpu:h100:8(S:0-1)","gres_used":"gpu:h100:8(IDX:0-7)",)j"
        R"("tres_used":"cpu=192,mem=800G")";
    const auto plain = node(R"("cpus":16,"real_memory":16000)" + rest);
    const auto object = node(R"("cpus":{"set":true,"infinite":false,"number":16},"real_memory":)"
                             R"({"set":true,"infinite":false,"number":16000})" +
                             rest);
    EXPECT_EQ(plain, object);
    EXPECT_EQ(plain.cpus, 16);
    EXPECT_EQ(plain.gpu_count(), 8);
    EXPECT_EQ(plain.free_gpus(), 0);
    EXPECT_EQ(node(R"("cpus":null,"real_memory":"Infinity")" + rest).cpus, 0);
}

TEST(Nodes, AFieldOfTheWrongTypeSpoilsOnlyItself) {
    const auto odd =
        node(R"("cpus":[],"gres":7,"state_flags":"DRAIN","partitions":{},"address":null,"state":3)");
    EXPECT_EQ(odd.name, "n1");
    EXPECT_FALSE(odd.usable);
    EXPECT_EQ(odd.gpu_count(), 0);
    auto some = api()->read_nodes({200, R"({"nodes":[7,null,{"cpus":4},{"name":"n2","state":"idle"}]})", 0});
    ASSERT_TRUE(some.ok());
    ASSERT_EQ(some->size(), 1u);
    EXPECT_TRUE(some->front().usable);
}

// H08: bare inf is no JSON; the error says where, and nothing else of the poll is touched.
TEST(Nodes, BareInfIsAnErrorThatSaysWhere) {
    auto nodes =
        api()->read_nodes({200, "{\"errors\":[],\n \"nodes\":[{\"name\":\"n1\",\"level\": inf}]}", 0});
    ASSERT_FALSE(nodes.ok());
    EXPECT_EQ(nodes.error().code, Errc::protocol);
    EXPECT_TRUE(nodes.error().what.starts_with("nodes: HTTP 200, not JSON: 2:")) << nodes.error().what;
}

TEST(Nodes, FlagsDecideNotTheBaseState) { // H14, H15
    struct Case {
        const char *state, *flags;
        bool usable, free_now, bootable;
        std::size_t unknown;
    };
    for (const Case &one :
         {Case{"idle", "[]", true, true, false, 0}, Case{"mixed", "[]", true, true, false, 0},
          Case{"allocated", "[]", true, false, false, 0}, Case{"idle", R"(["CLOUD"])", true, true, false, 0},
          Case{"idle", R"(["CLOUD","POWERED_DOWN"])", false, false, true, 0},
          Case{"idle", R"(["BRAND_NEW_FLAG"])", false, false, false, 1},
          Case{"idle", R"(["DRAIN"])", false, false, false, 0},
          Case{"mixed", R"(["DRAIN"])", false, false, false, 0},
          Case{"idle", R"(["RESERVED","MAINTENANCE"])", false, false, false, 0},
          Case{"idle", R"(["NOT_RESPONDING"])", false, false, false, 0},
          Case{"mixed", R"(["PLANNED"])", true, false, false, 0},
          Case{"idle", R"(["COMPLETING"])", true, false, false, 0},
          Case{"down", R"(["POWERED_DOWN"])", false, false, false, 0},
          Case{"unknown", "[]", false, false, false, 0}, Case{"future", "[]", false, false, false, 0}}) {
        const auto got =
            node(R"("gres":"gpu:4","state":")" + std::string(one.state) + R"(","state_flags":)" + one.flags);
        const std::string what = std::string(one.state) + one.flags;
        EXPECT_EQ(got.usable, one.usable) << what;
        EXPECT_EQ(got.free_now, one.free_now) << what;
        EXPECT_EQ(got.bootable, one.bootable) << what;
        EXPECT_EQ(got.unknown_flags.size(), one.unknown) << what;
        EXPECT_EQ(got.free_gpus(), one.free_now ? 4 : 0) << what;
    }
}

TEST(Gres, EveryFormOfAGpuEntryIsCounted) { // H12
    using Gpus = std::vector<GpuCount>;
    EXPECT_EQ(read_gpus("gpu:h100:8(S:0-1)"), (Gpus{{"h100", 8, 0}}));
    EXPECT_EQ(read_gpus("gpu:nvidia_h200_nvl_4g.71gb:1(S:0-1)"), (Gpus{{"nvidia_h200_nvl_4g.71gb", 1, 0}}));
    EXPECT_EQ(read_gpus("gpu:h100_3g.20gb:2(S:0-1)"), (Gpus{{"h100_3g.20gb", 2, 0}}));
    EXPECT_EQ(read_gpus("gpu:a100:2(S:0),gpu:a100:2(S:1),gpu:v100:1"),
              (Gpus{{"a100", 4, 0}, {"v100", 1, 0}}));
    EXPECT_EQ(read_gpus("gpu:4"), (Gpus{{"", 4, 0}}));
    EXPECT_EQ(read_gpus("gpu"), (Gpus{{"", 1, 0}}));
    EXPECT_EQ(read_gpus("gpu:h100"), (Gpus{{"h100", 1, 0}}));
    EXPECT_EQ(read_gpus("gres:gpu:h100:2"), (Gpus{{"h100", 2, 0}}));
    EXPECT_EQ(read_gpus("gpu:(null):2(IDX:0,3)"), (Gpus{{"", 2, 0}}));
    EXPECT_EQ(read_gpus("tmp:844G,gpu:h100:2K"), (Gpus{{"h100", 2048, 0}}));
    EXPECT_EQ(read_gpus("gpu:h100:0"), (Gpus{{"h100", 0, 0}}));
    for (const char *none :
         {"", "(null)", "N/A", "shard:gpu:4", "gpumem:80G", "gpu:h100:99999999999999999999", "gpu:h100:-1",
          "gpu:h100:", ",,", ")(", "mps:400"})
        EXPECT_EQ(NodeView{.gpus = read_gpus(none)}.gpu_count(), 0) << none;
}

TEST(Gres, UseIsTheLargerOfWhatTheSiteSays) {
    const auto used = [](const char *gres, const char *gres_used, const char *tres_used) {
        auto gpus = read_gpus(gres);
        count_used(gpus, gres_used, tres_used);
        std::vector<int> counts;
        for (const auto &gpu : gpus)
            counts.push_back(gpu.used);
        return counts;
    };
    using Counts = std::vector<int>;
    EXPECT_EQ(used("gpu:h100:8", "gpu:h100:5(IDX:0-2,6-7)", ""), Counts{5});
    EXPECT_EQ(used("gpu:h100:8", "gpu:h100:0(IDX:N/A)", "cpu=4,mem=1G"), Counts{0});
    EXPECT_EQ(used("gpu:h100:8", "N/A", "cpu=4,gres/gpu=3,gres/gpu:h100=3"), Counts{3});
    EXPECT_EQ(used("gpu:h100:8", "", "gres/gpu:h100=2"), Counts{2});
    EXPECT_EQ(used("gpu:a:4,gpu:b:4", "gpu:a:1(IDX:0),gpu:b:2(IDX:5-6)", "gres/gpu=3"), (Counts{1, 2}));
    EXPECT_EQ(used("gpu:a:4,gpu:b:4", "gpu:6", ""), (Counts{4, 2}));
    EXPECT_EQ(used("gpu:a:4", "gpu:a:9", ""), Counts{4});
}

TEST(Jobs, OfEveryRecordedStateAreRead) {
    struct Case {
        const char *file;
        std::int64_t id;
        JobState state;
        bool held;
        const char *reason;
        std::int64_t start;
    };
    for (const Case &one :
         {Case{"38-job-pending-held.json", 3, JobState::pending, true, "JobHeldUser", 0},
          Case{"38-job-after-update.json", 3, JobState::pending, true, "JobHeldUser", 0},
          Case{"38-job-begin-time.json", 18, JobState::pending, false, "BeginTime", 1796047557},
          Case{"38-job-pending-resources.json", 13, JobState::pending, false, "Resources", 1796047590},
          Case{"38-job-pending-reserved.json", 16, JobState::pending, false, "ReqNodeNotAvail", 1796051641},
          Case{"38-job-requeued.json", 12, JobState::pending, false, "BeginTime", 1796047548},
          Case{"38-job-running.json", 3, JobState::running, false, "", 1796047319},
          Case{"38-job-failed.json", 5, JobState::failed, false, "NonZeroExitCode", 1796047349},
          Case{"38-job-cancelled.json", 4, JobState::cancelled, false, "JobHeldUser", 1796047348}}) {
        auto job = api()->read_job(recorded(one.file));
        ASSERT_TRUE(job.ok()) << one.file;
        EXPECT_EQ(job->id, one.id) << one.file;
        EXPECT_EQ(job->user, "alice") << one.file;
        EXPECT_EQ(job->state, one.state) << one.file;
        EXPECT_EQ(job->state_text, name(one.state)) << one.file;
        EXPECT_EQ(job->held, one.held) << one.file;
        EXPECT_EQ(job->reason, one.reason) << one.file;
        EXPECT_EQ(job->start_time, one.start) << one.file;
    }
    auto running = api()->read_job(recorded("38-job-running.json"));
    EXPECT_EQ(running->nodes, "s2-n[1-2]");
    EXPECT_EQ(running->batch_host, "s2-n1");
    EXPECT_EQ(running->comment, "spiderflow:F-1:v2");
    EXPECT_EQ(running->name, "sf-f1-s2");
    EXPECT_EQ(running->partition, "train");
    EXPECT_EQ(running->submit_time, 1796047317);
    EXPECT_EQ(running->end_time, 1796048219);
    EXPECT_EQ(running->eligible_time, 1796047319);
    EXPECT_EQ(running->time_limit_minutes, 15);
    EXPECT_EQ(running->dependency, "");
    EXPECT_EQ(api()->read_job(recorded("38-job-failed.json"))->exit_code, 7); // recorded as 1792
    EXPECT_EQ(api()->read_job(recorded("38-job-requeued.json"))->restarts, 1);
}

TEST(Jobs, SayWhatTheyWaitFor) { // sbatch --hold --begin=now+1hour --dependency=afterany:12 --time=9
    const auto job = api()->read_job(recorded("38-job-dependent.json"));
    ASSERT_TRUE(job.ok());
    EXPECT_TRUE(job->held);
    EXPECT_EQ(job->dependency, "afterany:12(unfulfilled)");
    EXPECT_EQ(job->eligible_time, 1796101447);
    EXPECT_EQ(job->time_limit_minutes, 9);
}

JobView job(const std::string &fields) {
    auto got = api()->read_job({200, R"({"errors":[],"jobs":[{"job_id":5,)" + fields + "}]}", 0});
    EXPECT_TRUE(got.ok()) << fields;
    return got.ok() ? *got : JobView{};
}

TEST(Jobs, HeldMeansPendingAndPriorityNought) {
    EXPECT_FALSE(job(R"("job_state":"RUNNING","priority":0,"state_reason":"JobHeldUser")").held);
    EXPECT_FALSE(job(R"("job_state":"PENDING","priority":7,"state_reason":"None")").held);
    EXPECT_TRUE(job(R"("job_state":"PENDING","priority":0,"state_reason":"BadConstraints")").held);
    EXPECT_TRUE(job(R"("job_state":"PENDING","priority":null,"state_reason":"JobHeldAdmin")").held);
}

TEST(Jobs, WithoutATimeLimitHaveNone) {
    EXPECT_EQ(job(R"("time_limit":null)").time_limit_minutes, 0);
    EXPECT_EQ(job(R"("time_limit":4294967295)").time_limit_minutes, 0); // Slurm's INFINITE
}

TEST(Jobs, StatesOutsideTheListKeepTheirWord) {
    EXPECT_EQ(job(R"("job_state":"OUT_OF_MEMORY")").state, JobState::failed);
    EXPECT_EQ(job(R"("job_state":"CONFIGURING")").state, JobState::running);
    EXPECT_EQ(job(R"("job_state":"DEADLINE")").state, JobState::timeout);
    const auto odd = job(R"j("job_state":"LEVITATING","exit_code":15,"nodes":"(null)",)j"
                         R"("job_resources":{"nodes":"n[1-2]"})"); // H07: the list is elsewhere
    EXPECT_EQ(odd.state, JobState::other);
    EXPECT_EQ(odd.state_text, "LEVITATING");
    EXPECT_EQ(odd.exit_signal, 15);
    EXPECT_EQ(odd.nodes, "n[1-2]");
    EXPECT_FALSE(is_over(JobState::other));
    EXPECT_FALSE(is_over(JobState::completing));
    EXPECT_TRUE(is_over(JobState::completed));
    EXPECT_TRUE(is_over(JobState::preempted));
}

TEST(Jobs, AnUnknownOneIsNotFoundAndAWrongPathIsNot) {
    auto unknown = api()->read_job(recorded("38-get-unknown.json", 500));
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().code, Errc::not_found);
    EXPECT_EQ(unknown.error().what,
              "job: HTTP 500: Unable to find JobId=999999: Invalid job id specified (2017)");
    // The 404 of a proxy must never end a job.
    EXPECT_EQ(api()->read_job(recorded("err-404.json", 404)).error().code, Errc::protocol);
    EXPECT_EQ(api()->read_job({404, "", 0}).error().code, Errc::protocol);
}

TEST(Jobs, NothingChangedIsNotNoJobs) {
    auto unchanged = api()->read_jobs({304, "", 0});
    ASSERT_TRUE(unchanged.ok());
    EXPECT_FALSE(unchanged->has_value());
    auto none = api()->read_jobs({200, R"({"errors":[],"jobs":[]})", 0});
    ASSERT_TRUE(none.ok());
    ASSERT_TRUE(none->has_value());
    EXPECT_TRUE((*none)->empty());
    auto busy = api()->read_jobs(recorded("38-jobs-busy.json"));
    ASSERT_TRUE(busy.ok());
    EXPECT_EQ((*busy)->size(), 14u);
    const auto running = [](const JobView &one) { return one.state == JobState::running; };
    EXPECT_EQ(std::count_if((*busy)->begin(), (*busy)->end(), running), 1);
    EXPECT_EQ((*api()->read_jobs(recorded("38-jobs.json")))->size(), 2u);
    EXPECT_EQ(api()->jobs(1796047317).path, "/slurm/v0.0.38/jobs?update_time=1796047317");
    EXPECT_EQ(api()->jobs().path, "/slurm/v0.0.38/jobs");
}

TEST(Jobs, ASiteThatCannotAnswerIsUnreachableWithBothCauses) {
    for (const char *file :
         {"err-ctld-down-jobs.json", "err-expired-token.json", "err-token-of-other-site.json"}) {
        auto jobs = api()->read_jobs(recorded(file, 500));
        ASSERT_FALSE(jobs.ok()) << file;
        EXPECT_EQ(jobs.error().code, Errc::unreachable) << file;
        EXPECT_TRUE(contains(jobs.error().what,
                             "Failed while looking for jobs: Unspecified error; either its "
                             "slurmctld is down"))
            << jobs.error().what;
    }
    EXPECT_EQ(api()->read_nodes(recorded("err-ctld-down-nodes.json", 500)).error().code, Errc::unreachable);
    auto refused = api()->read_jobs({401, "Authentication failure", 0});
    EXPECT_EQ(refused.error().code, Errc::denied);
    EXPECT_TRUE(contains(refused.error().what, "HTTP 401: Authentication failure")) << refused.error().what;
}

} // namespace
} // namespace spider::slurm
