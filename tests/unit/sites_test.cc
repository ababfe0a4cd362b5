// SPDX-License-Identifier: GPL-3.0-or-later
// The sites' views, tokens and states, with a slurmrestd of recorded replies.
#include "broker/sites.h"
#include "model/gpu_table.h"
#include "plan/planner.h"
#include "unit/http_server.h"
#include "unit/jwt.h"
#include "unit/slurm_replies.h"
#include "util/text.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace spider::broker {
namespace {

constexpr Seconds today = 1'800'000'000;
const slurm::Call ping{"GET", "/slurm/v0.0.38/ping", ""};

struct SitesTest : testing::Test {
    std::filesystem::path folder = testing::TempDir() + "sites" + std::to_string(::getpid());
    test::Server server{[](const std::string &request) {
        if (request.starts_with("GET /slurm/v0.0.38/nodes "))
            return test::answer(test::recorded("38-nodes.json").body);
        return test::answer("{}",
                            request.starts_with("GET /fails ") ? "500 Internal Server Error" : "200 OK");
    }};
    util::ManualClock clock;
    slurm::Http http;
    Sites sites{http, clock};
    Config config;
    std::vector<NamedLink> links;

    SitesTest() {
        std::filesystem::create_directories(folder);
        clock.at = today;
        config.home = "s1";
        for (const auto *name : {"s1", "s2", "s3"})
            add(name);
        for (const auto *from : {"s1", "s2", "s3"})
            for (const auto *to : {"s1", "s2", "s3"})
                if (std::string_view(from) != to)
                    links.push_back({.from = from, .to = to, .gbps = 100, .rtt_ms = 1, .source = "pinned"});
        sites.know(links, {});
    }
    ~SitesTest() override { std::filesystem::remove_all(folder); }

    void add(const std::string &name) {
        SiteConfig site;
        site.name = name;
        site.url = "http://" + server.where();
        site.token_file = token(name, test::jwt(R"({"exp":1800000600})"));
        config.sites.push_back(site);
    }
    std::string token(const std::string &name, const std::string &text) const {
        const auto path = (folder / name).string();
        std::ofstream(path) << text << "\n";
        ::chmod(path.c_str(), 0600);
        return path;
    }
    SiteConfig &site(const std::string &name) {
        return *std::find_if(config.sites.begin(), config.sites.end(),
                             [&](const auto &one) { return one.name == name; });
    }
    void settle() {
        for (int i = 0; i < 200 && http.pending() > 0; ++i)
            http.turn(0.1);
        ASSERT_EQ(http.pending(), 0u);
    }
    void look() {
        sites.tick();
        settle();
    }
    Error refusal(const std::string &name, const slurm::Call &call = ping) {
        Error error;
        sites.call(name, "slurm", call, 5, [&](const Result<slurm::Reply> &reply) {
            if (!reply) error = reply.error();
        });
        settle();
        return error;
    }
    [[nodiscard]] std::size_t asked() const { return server.requests().size(); }
    [[nodiscard]] Result<Plan> plan(const std::vector<std::string> &names) const {
        JobSpec spec{.model_name = "13b",
                     .model = {"LlamaForCausalLM", 40, 5120, 13824, 40, 40, 128, 32000, 0, true, false}};
        spec.sequence = 4096, spec.global_batch = 64, spec.home = "s1", spec.sites = names;
        return plan::make_plan(*sites.federation("", false), spec);
    }
};

TEST_F(SitesTest, ThatAreNotActiveGetNoNewParts) {
    sites.configure(config, {});
    look();
    ASSERT_EQ(plan({"s1", "s2"})->outcome, Outcome::planned);
    ASSERT_EQ(plan({"s1", "s3"})->outcome, Outcome::planned);
    site("s2").state = SiteState::drain;
    site("s3").state = SiteState::inactive;
    sites.configure(config, {});
    look();
    EXPECT_EQ(plan({"s1", "s2"})->reason, "site s2 is in state DRAIN");
    EXPECT_EQ(plan({"s1", "s3"})->reason, "site s3 is in state INACTIVE");
    const auto free = plan({});
    ASSERT_EQ(free->outcome, Outcome::planned);
    for (const auto &part : free->parts)
        EXPECT_EQ(part.site, "s1");
}

TEST_F(SitesTest, ThatDrainAreLookedAtAndThatAreInactiveAreNot) {
    site("s2").state = SiteState::drain;
    site("s3").state = SiteState::inactive;
    sites.configure(config, {});
    look();
    EXPECT_EQ(asked(), 2u);
    EXPECT_EQ(sites.line("s2")->seen_at, today);
    EXPECT_EQ(sites.snapshot()->site("s2")->state, SiteState::drain);
    EXPECT_EQ(sites.line("s3")->seen_at, 0);
    EXPECT_EQ(sites.snapshot()->site("s3")->trouble, "") << "nothing is wrong with it";
    EXPECT_FALSE(sites.snapshot()->site("s3")->stale);
    bool refreshed = false;
    sites.refresh(-1, 1.5, [&] { refreshed = true; });
    settle();
    EXPECT_TRUE(refreshed);
    EXPECT_EQ(asked(), 4u);
    EXPECT_EQ(refusal("s3").what, "") << "what runs there is still followed";
    EXPECT_EQ(asked(), 5u);
}

TEST_F(SitesTest, ThatBecomeActiveAgainAreNotPlannedOnBeforeALook) {
    sites.configure(config, {});
    look();
    site("s2").state = SiteState::inactive;
    sites.configure(config, {});
    site("s2").state = SiteState::active;
    sites.configure(config, {});
    EXPECT_EQ(plan({"s1", "s2"})->reason, "site s2 is stale: not polled yet");
    look();
    EXPECT_EQ(plan({"s1", "s2"})->outcome, Outcome::planned);
}

TEST_F(SitesTest, ThatLeaveTheFileStayAsLongAsTheyAreNeeded) {
    sites.configure(config, {});
    look();
    const auto nodes = sites.line("s2")->nodes.size();
    ASSERT_GT(nodes, 0u);
    std::erase_if(config.sites, [](const auto &one) { return one.name != "s1"; });
    testing::internal::CaptureStderr();
    sites.configure(config, {"s1", "s2"});
    sites.configure(config, {"s2"});
    const auto log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("site s2: no longer in spiderflow.conf"), std::string::npos) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "said once: " << log;
    EXPECT_EQ(sites.line("s3"), nullptr);
    ASSERT_NE(sites.line("s2"), nullptr);
    EXPECT_EQ(sites.line("s2")->nodes.size(), nodes) << "the word needs their addresses";
    EXPECT_EQ(sites.snapshot()->site("s2")->state, SiteState::inactive);
    EXPECT_EQ(sites.snapshot()->site("s2")->trouble,
              "no longer in spiderflow.conf; its parts of live jobs are still followed");
    EXPECT_EQ(plan({"s1", "s2"})->reason, "site s2 is in state INACTIVE");
    EXPECT_EQ(refusal("s2").what, "");
    sites.configure(config, {});
    EXPECT_EQ(sites.line("s2"), nullptr);
    EXPECT_EQ(refusal("s2").what, "site s2: not in spiderflow.conf");
}

TEST_F(SitesTest, ThatComeBackIntoTheFileAreAsBefore) {
    sites.configure(config, {});
    auto without = config;
    std::erase_if(without.sites, [](const auto &one) { return one.name == "s2"; });
    sites.configure(without, {"s2"});
    sites.configure(config, {"s2"});
    look();
    EXPECT_EQ(sites.snapshot()->site("s2")->state, SiteState::active);
    EXPECT_EQ(sites.snapshot()->site("s2")->trouble, "");
}

TEST_F(SitesTest, AreNotAskedWithAnExpiredToken) {
    sites.configure(config, {});
    const auto file = token("s2", test::jwt(R"({"exp":1799999999})"));
    const auto why =
        "its token has expired at " + util::local_time(1799999999) + ": put a new one into " + file;
    EXPECT_EQ(refusal("s2"), (Error{Errc::denied, "site s2: " + why}));
    EXPECT_EQ(asked(), 0u);
    look();
    EXPECT_EQ(asked(), 2u) << "s1 and s3";
    EXPECT_EQ(sites.line("s2")->trouble, why);
    EXPECT_EQ(sites.line("s2")->token_expires, 1799999999);
    EXPECT_TRUE(sites.snapshot()->site("s2")->stale);
    EXPECT_EQ(plan({"s1", "s2"})->reason, "site s2 is stale: " + why);
    token("s2", test::jwt(R"({"exp":1800000001})"));
    EXPECT_EQ(refusal("s2").what, "") << "a new one is taken with the next request";
    EXPECT_EQ(sites.line("s2")->token_expires, 1800000001);
    clock.at = 1800000001;
    EXPECT_EQ(refusal("s2").code, Errc::denied);
    EXPECT_EQ(refusal("s1").what, "") << "the others' tokens are good";
}

TEST_F(SitesTest, JudgeThemselvesWhatIsNoToken) {
    sites.configure(config, {});
    look();
    EXPECT_EQ(sites.line("s2")->token_expires, 1800000600);
    token("s2", "no token");
    EXPECT_EQ(refusal("s2").what, "");
    EXPECT_EQ(sites.line("s2")->token_expires, 0);
    EXPECT_NE(server.requests().back().find("X-SLURM-USER-TOKEN: no token\r\n"), std::string::npos);
}

TEST_F(SitesTest, CountRequestsAndFailuresOverAReload) {
    sites.configure(config, {});
    look();
    refusal("s1", {"GET", "/fails", ""});
    token("s1", test::jwt(R"({"exp":1})"));
    refusal("s1");
    config.sites[1].url = "http://127.0.0.1:1";
    sites.configure(config, {});
    EXPECT_EQ(sites.line("s1")->requests, 3);
    EXPECT_EQ(sites.line("s1")->failures, 2);
    EXPECT_EQ(sites.line("s2")->requests, 0) << "another slurmrestd";
    EXPECT_EQ(refusal("s2").code, Errc::unreachable);
    EXPECT_EQ(sites.line("s2")->failures, 1);
    EXPECT_EQ(sites.line("s3")->requests, 1);
    EXPECT_EQ(sites.line("s3")->failures, 0);
}

} // namespace
} // namespace spider::broker
