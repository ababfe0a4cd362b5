// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/recover.h"

#include "broker/journal.h"
#include "broker/server.h"
#include "coalloc/decide.h"
#include "launch/environment.h"
#include "plan/summary.h"
#include "unit/fake_slurmrestd.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace spider::broker {
namespace {

namespace fs = std::filesystem;
using coalloc::PartState;
using coalloc::State;
using slurm::JobState;
using Lines = std::vector<std::string>;

const std::string lost = "its plan was lost with the journal";

std::string me() { return ::getpwuid(::geteuid())->pw_name; }

// Three sites, where whoever runs the test is called alice. Home is s1, which is not the first.
Config federation() {
    Config config;
    config.home = "s1";
    for (const auto *name : {"s0", "s1", "s2"}) {
        SiteConfig site;
        site.name = name;
        site.users[me()] = "alice";
        config.sites.push_back(site);
    }
    return config;
}

slurm::JobView job(std::int64_t id, JobState state, const std::string &comment,
                   const std::string &user = "alice") {
    slurm::JobView view;
    view.id = id;
    view.state = state;
    view.state_text = slurm::name(state);
    view.comment = comment;
    view.user = user;
    view.name = "train";
    view.submit_time = 1000 + id;
    if (state != JobState::pending) view.nodes = "n[1-2]";
    return view;
}
slurm::JobView runs(std::int64_t id, const std::string &mark, const std::string &user = "alice") {
    return job(id, JobState::running, mark + " go=10.0.0.1/29503 run=0", user);
}
slurm::JobView held(std::int64_t id, const std::string &mark) {
    auto view = job(id, JobState::pending, mark);
    view.held = true;
    view.reason = "JobHeldUser";
    return view;
}

Rebuilt rebuilt(const std::vector<SiteJobs> &sites, const std::vector<coalloc::Job> &known = {}) {
    return rebuild(federation(), sites, known, 5000);
}

std::vector<std::string> places(const coalloc::Job &job) {
    std::vector<std::string> places;
    for (const auto &part : job.parts)
        places.push_back(part.site + "/" + std::to_string(part.job));
    return places;
}

// Whether the broker will ask for the cancel of each part, and then end it as failed.
bool is_cancelled(coalloc::Job job) {
    const coalloc::Policy policy;
    const auto acts = coalloc::acts(job, policy, {});
    for (const auto &act : acts)
        if (act.verb != coalloc::Verb::cancel) return false;
    if (acts.size() != job.parts.size() || coalloc::decide(job, {}, policy, {})) return false;
    for (auto &part : job.parts)
        part.state = PartState::cancelled;
    const auto end = coalloc::decide(job, {}, policy, {});
    return end && end->event == coalloc::Event::gone_failed && end->why == lost;
}

TEST(Rebuild, AJobOfWhichEveryPartRunsWithTheWordGoesOn) {
    auto home = runs(12, "my words spiderflow=s1-3/2");
    home.restarts = 1;
    home.comment = "my words spiderflow=s1-3/2 go=10.0.0.1/29503 run=1";
    const auto all = rebuilt({{"s0", {}}, {"s2", {runs(7, "spiderflow=s1-3/2")}}, {"s1", {home}}});
    ASSERT_EQ(all.jobs.size(), 1u);
    const auto &found = all.jobs.front();
    EXPECT_EQ(found.id, "s1-3");
    EXPECT_EQ(found.sequence, 3);
    EXPECT_EQ(found.user, me());
    EXPECT_EQ(found.uid, ::geteuid());
    EXPECT_EQ(found.state, State::running);
    EXPECT_EQ(found.attempt, 2);
    EXPECT_EQ(found.word, "10.0.0.1/29503");
    EXPECT_EQ(found.user_comment, "my words");
    EXPECT_EQ(found.submitted, 1007);
    EXPECT_EQ(found.entered, 5000);
    EXPECT_EQ(places(found), (Lines{"s1/12", "s2/7"})) << "the home part first";
    EXPECT_EQ(found.parts[0].restarts, 1);
    for (const auto &part : found.parts) {
        EXPECT_EQ(part.state, PartState::running);
        EXPECT_TRUE(part.word_given && part.released);
        EXPECT_EQ(part.user, "alice");
        EXPECT_EQ(part.hosts, "n[1-2]");
    }
    EXPECT_EQ(all.lines,
              (Lines{"s1-3 of " + me() + ": running: site s1: job 12 RUNNING, site s2: job 7 RUNNING"}));
    EXPECT_EQ(all.last, 3);
}

TEST(Rebuild, WhatGoesOnIsReadBackFollowedAndShown) {
    const auto all =
        rebuilt({{"s1", {runs(12, "spiderflow=s1-3/1")}}, {"s2", {runs(7, "spiderflow=s1-3/1")}}});
    ASSERT_EQ(all.jobs.size(), 1u);
    auto found = all.jobs.front();
    const auto back = coalloc::job_from_json(coalloc::to_json(found));
    ASSERT_TRUE(back) << back.error().what;
    EXPECT_EQ(*back, found);
    const coalloc::Policy policy;
    EXPECT_FALSE(coalloc::decide(found, {}, policy, {}));
    EXPECT_TRUE(coalloc::acts(found, policy, {}).empty()) << "the word was given";
    EXPECT_EQ(coalloc::waits_because(found, policy, {}), "");
    EXPECT_NE(plan::summary(found.plan).find("s2"), std::string::npos);
    EXPECT_EQ(launch::size_of(found.plan, found.plan.parts[1]).nodes, 0);
    for (auto &part : found.parts)
        part.state = PartState::completed;
    EXPECT_EQ(coalloc::decide(found, {}, policy, {})->event, coalloc::Event::all_completed);
}

TEST(Rebuild, AJobWithAPartThatDoesNotRunWithTheWordIsCancelled) {
    auto again = runs(7, "spiderflow=s1-3/1"); // the word was for the run before
    again.restarts = 1;
    const std::vector<slurm::JobView> others{
        held(7, "spiderflow=s1-3/1"),
        job(7, JobState::pending, "spiderflow=s1-3/1"),
        job(7, JobState::pending, "spiderflow=s1-3/1 go=10.0.0.1/29503 run=0"),
        job(7, JobState::running, "spiderflow=s1-3/1"),
        job(7, JobState::running, "spiderflow=s1-3/1 back=0"),
        runs(7, "spiderflow=s1-3/1 back=0"),
        again,
    };
    for (const auto &other : others) {
        const auto all = rebuilt({{"s1", {runs(12, "spiderflow=s1-3/1")}}, {"s2", {other}}});
        ASSERT_EQ(all.jobs.size(), 1u) << other.comment;
        const auto &found = all.jobs.front();
        EXPECT_EQ(found.state, State::ending) << other.comment;
        EXPECT_EQ(found.reason, lost);
        EXPECT_FALSE(found.again || found.cancelled);
        EXPECT_EQ(places(found), (Lines{"s1/12", "s2/7"}));
        EXPECT_TRUE(is_cancelled(found)) << other.comment;
    }
}

TEST(Rebuild, AJobWithAPartThatEndedBadlyIsCancelledAndOneThatIsThroughIsNot) {
    auto through = runs(7, "spiderflow=s1-3/1");
    through.state = JobState::completed;
    auto bad = through;
    bad.exit_code = 1;
    auto killed = through;
    killed.state = JobState::node_fail;
    const auto with = [&](const slurm::JobView &other) {
        return rebuilt({{"s1", {runs(12, "spiderflow=s1-3/1")}}, {"s2", {other}}}).jobs.at(0);
    };
    EXPECT_EQ(with(through).state, State::running);
    EXPECT_EQ(with(through).parts.at(1).state, PartState::completed);
    for (const auto &other : {bad, killed}) {
        EXPECT_EQ(with(other).state, State::ending);
        EXPECT_EQ(places(with(other)), Lines{"s1/12"}) << "only what lives is cancelled";
        EXPECT_TRUE(is_cancelled(with(other)));
    }
    EXPECT_TRUE(rebuilt({{"s1", {bad}}, {"s2", {through}}}).jobs.empty()) << "nothing lives";
}

TEST(Rebuild, TheLatestAttemptCounts) {
    const auto old = runs(5, "spiderflow=s1-3/1"), now = runs(9, "spiderflow=s1-3/2");
    const auto ended = job(9, JobState::failed, "spiderflow=s1-3/2");
    const auto running = rebuilt({{"s1", {old, now}}, {"s2", {runs(7, "spiderflow=s1-3/2")}}}).jobs.at(0);
    EXPECT_EQ(running.state, State::running);
    EXPECT_EQ(places(running), (Lines{"s1/9", "s2/7"})) << "the broker's sweep cancels what is not in here";
    const auto ending = rebuilt({{"s1", {old, held(9, "spiderflow=s1-3/2")}}}).jobs.at(0);
    EXPECT_EQ(ending.attempt, 2);
    EXPECT_EQ(places(ending), (Lines{"s1/5", "s1/9"}));
    EXPECT_TRUE(is_cancelled(ending));
    const auto left = rebuilt({{"s1", {old, ended}}}).jobs.at(0);
    EXPECT_EQ(left.attempt, 2);
    EXPECT_EQ(places(left), Lines{"s1/5"});
    EXPECT_TRUE(is_cancelled(left));
}

TEST(Rebuild, TwoPartsAtOneSiteCannotBothBeRight) {
    const auto all = rebuilt({{"s1", {runs(5, "spiderflow=s1-3/1"), runs(6, "spiderflow=s1-3/1")}}});
    EXPECT_TRUE(is_cancelled(all.jobs.at(0)));
    EXPECT_EQ(places(all.jobs.at(0)), (Lines{"s1/5", "s1/6"}));
}

TEST(Rebuild, WhatIsNotOfThisHomeIsNotSeen) {
    const auto all =
        rebuilt({{"s1",
                  {runs(1, "spiderflow=s2-3/1"), runs(2, "spiderflow=s1-x-3/1"), runs(3, "spiderflow=s1-/1"),
                   runs(4, "spiderflow=s1-007/1"), runs(5, "spiderflow=s1-9000000000000000000/1"),
                   runs(6, "spiderflow=s1--4/1"), job(7, JobState::running, "s1-3"),
                   job(8, JobState::running, ""), runs(9, "spiderflow=s10-3/1")}}});
    EXPECT_TRUE(all.jobs.empty());
    EXPECT_EQ(all.lines, Lines{});
    EXPECT_EQ(all.last, 0);
}

TEST(Rebuild, OfJobsThatHaveEndedOnlyTheNumberCounts) {
    const auto all =
        rebuilt({{"s1", {job(1, JobState::completed, "spiderflow=s1-41/1"), held(2, "spiderflow=s1-8/1")}}});
    ASSERT_EQ(all.jobs.size(), 1u);
    EXPECT_EQ(all.jobs[0].id, "s1-8");
    EXPECT_EQ(all.last, 41);
}

TEST(Rebuild, AJobWhoseOwnerIsNotClearIsLeftAlone) {
    EXPECT_EQ(
        rebuilt({{"s1", {runs(1, "spiderflow=s1-3/1", "mallory")}}}).lines,
        Lines{"s1-3: left alone: no user of this host can own all its parts (site s1: job 1 of mallory); "
              "see to the users tables, or scancel them there"});
    const auto two =
        rebuilt({{"s1", {runs(1, "spiderflow=s1-3/1")}}, {"s2", {runs(2, "spiderflow=s1-3/1", "bob")}}});
    EXPECT_TRUE(two.jobs.empty()) << "somebody else wrote that into his comment";
    EXPECT_EQ(two.last, 3);
    auto config = federation();
    for (auto &site : config.sites)
        site.users["daemon"] = "alice"; // an account that every host has
    const auto both = rebuild(config, {{"s1", {runs(1, "spiderflow=s1-3/1")}}}, {}, 5000);
    EXPECT_TRUE(both.jobs.empty());
    EXPECT_EQ(both.lines,
              Lines{"s1-3: left alone: more than one user of this host can own all its parts (site s1: "
                    "job 1 of alice); see to the users tables, or scancel them there"});
    config.sites[2].users.erase("daemon"); // s2 tells them apart
    const auto one = rebuild(
        config, {{"s1", {runs(1, "spiderflow=s1-3/1")}}, {"s2", {runs(2, "spiderflow=s1-3/1")}}}, {}, 5000);
    EXPECT_EQ(one.jobs.at(0).user, me());
}

TEST(Rebuild, WhatTheJournalHasStaysAndOnlyStrayPartsAreTold) {
    const std::vector<SiteJobs> sites{{"s1", {runs(5, "spiderflow=s1-3/1")}},
                                      {"s2", {held(6, "spiderflow=s1-3/1"), held(8, "spiderflow=s1-3/2")}}};
    coalloc::Job known;
    known.id = "s1-3";
    known.state = State::done;
    known.parts = {{.site = "s1", .job = 5}, {.site = "s2", .job = 6}};
    const auto all = rebuilt(sites, {known});
    EXPECT_TRUE(all.jobs.empty());
    EXPECT_EQ(all.lines,
              Lines{"s1-3: in the journal, but without site s2: job 8, which the broker will cancel"});
    EXPECT_EQ(all.last, 3);
}

class Recover : public testing::Test {
  protected:
    fs::path folder = fs::path(testing::TempDir()) / ("sfr" + std::to_string(::getpid()));
    test::FakeSlurmrestd home, away;
    Config config;

    Recover() {
        fs::create_directories(folder);
        config = federation();
        config.sites.erase(config.sites.begin());
        config.journal = (folder / "journal.db").string();
        config.socket = (folder / "d.sock").string();
        const auto token = (folder / "token").string();
        std::ofstream(token) << "abc\n";
        ::chmod(token.c_str(), 0600);
        for (auto &site : config.sites)
            site.token_file = token;
        config.sites[0].url = home.url();
        config.sites[1].url = away.url();
    }
    ~Recover() override { fs::remove_all(folder); }

    void fill() {
        const std::string word = " go=10.0.0.1/29503 run=0";
        home.jobs = {test::job_record(1, "COMPLETED", "spiderflow=s1-40/1" + word),
                     test::job_record(2, "RUNNING", "spiderflow=s1-12/1" + word),
                     test::job_record(3, "RUNNING", "spiderflow=s1-13/1"),
                     test::job_record(4, "RUNNING", "a job of its own", "bob")};
        away.jobs = {test::job_record(5, "RUNNING", "spiderflow=s1-12/1" + word),
                     test::job_record(6, "PENDING", "spiderflow=s1-13/1"),
                     test::job_record(7, "RUNNING", "spiderflow=s2-12/1" + word)};
    }
    [[nodiscard]] std::vector<coalloc::Job> in_journal() const {
        auto journal = Journal::open(config.journal);
        return journal ? *journal->load(100) : std::vector<coalloc::Job>{};
    }
    [[nodiscard]] std::string refusal() const {
        const auto lines = recover(config, 20);
        return lines ? "" : lines.error().what;
    }
};

TEST_F(Recover, WritesWhatTheSitesKnowAndGoesOnAboveTheirNumbers) {
    fill();
    const auto lines = recover(config, 20);
    ASSERT_TRUE(lines) << lines.error().what;
    EXPECT_EQ(*lines, (Lines{"s1-12 of " + me() + ": running: site s1: job 2 RUNNING, site s2: job 5 RUNNING",
                             "s1-13 of " + me() +
                                 ": to be cancelled: site s1: job 3 RUNNING, site s2: job 6 "
                                 "PENDING (JobHeldUser)",
                             "recovered 2 jobs: 1 running, 1 to be cancelled; next number 41"}));
    const auto jobs = in_journal();
    ASSERT_EQ(jobs.size(), 2u);
    EXPECT_EQ(jobs[0].state, State::running);
    EXPECT_EQ(jobs[0].parts[0].hosts, "s2-n[1-2]") << "as recorded";
    EXPECT_EQ(jobs[1].state, State::ending);
    EXPECT_EQ(*Journal::open(config.journal)->next_sequence(), 41);
    for (const auto *site : {&home, &away}) {
        ASSERT_EQ(site->requests().size(), 1u) << "nothing but the list is asked for";
        EXPECT_NE(site->requests()[0].find("X-SLURM-USER-NAME: slurm\r\n"), std::string::npos);
    }
}

TEST_F(Recover, DoneAgainChangesNothing) {
    fill();
    ASSERT_TRUE(recover(config, 20));
    const auto before = in_journal();
    const auto lines = recover(config, 20);
    ASSERT_TRUE(lines) << lines.error().what;
    EXPECT_EQ(*lines, Lines{"recovered 0 jobs: 0 running, 0 to be cancelled; next number 41"});
    EXPECT_EQ(in_journal(), before);
}

TEST_F(Recover, NeverGoesBelowTheNumberThatTheJournalHas) {
    ASSERT_TRUE(Journal::open(config.journal)->raise_sequence(99));
    EXPECT_EQ(*recover(config, 20), Lines{"recovered 0 jobs: 0 running, 0 to be cancelled; next number 100"});
}

TEST_F(Recover, ASiteThatDoesNotAnswerIsNamedAndNothingIsWritten) {
    fill();
    auto gone = std::make_unique<test::FakeSlurmrestd>();
    config.sites[1].url = gone->url();
    gone.reset();
    const auto why = refusal();
    EXPECT_TRUE(why.starts_with("site s2: ")) << why;
    EXPECT_EQ(why.find("site s1"), std::string::npos) << why;
    EXPECT_NE(why.find("every site must answer, so nothing was written"), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
    EXPECT_FALSE(fs::exists(config.journal));
}

TEST_F(Recover, ASiteThatSaysNoIsLikeOneThatIsSilent) {
    const test::Server refuses([](const std::string &) {
        return test::answer(test::recorded("err-bad-token.json").body, "500 Internal Server Error");
    });
    config.sites[0].url = "http://" + refuses.where();
    EXPECT_TRUE(refusal().starts_with("site s1: jobs: HTTP 500: ")) << refusal();
    EXPECT_FALSE(fs::exists(config.journal));
}

TEST_F(Recover, IsRefusedWhileABrokerAnswers) {
    auto server = Server::open(config.socket, [](const ApiRequest &) { return ApiReply{200, "{}"}; });
    ASSERT_TRUE(server) << server.error().what;
    EXPECT_EQ(refusal(), "socket " + config.socket +
                             ": a spiderflowd answers there; stop it first (systemctl stop spiderflowd)");
    EXPECT_TRUE(home.requests().empty());
    server->reset();
    EXPECT_EQ(refusal(), "");
}

TEST_F(Recover, DoesNotLeaveTheServiceAJournalOfRoot) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const auto *other = ::getpwnam("daemon");
    ASSERT_NE(other, nullptr);
    ASSERT_EQ(::chown(folder.c_str(), other->pw_uid, other->pw_gid), 0);
    EXPECT_EQ(refusal(),
              "journal " + config.journal +
                  ": its folder belongs to daemon: run this as that user (sudo -u daemon spiderflowd "
                  "--recover)");
    EXPECT_FALSE(fs::exists(config.journal));
}

} // namespace
} // namespace spider::broker
