// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/job.h"

#include <gtest/gtest.h>

#include <set>

namespace spider::coalloc {
namespace {

constexpr std::array all_states{State::asked,     State::planned,    State::placing,  State::holding,
                                State::releasing, State::rendezvous, State::running,  State::ending,
                                State::done,      State::failed,     State::cancelled};

Job job_in(State state, std::vector<PartState> parts) {
    Job job;
    job.id = "s1-1";
    job.state = state;
    for (std::size_t i = 0; i < parts.size(); ++i)
        job.parts.push_back(
            {.site = "s" + std::to_string(i + 1), .job = 10 + static_cast<int>(i), .state = parts[i]});
    return job;
}

std::optional<Event> event_of(const Job &job, Seconds now = 0) {
    const auto decision = decide(job, Policy{}, now);
    return decision ? std::optional(decision->event) : std::nullopt;
}

TEST(Table, EndsAreEnds) {
    for (const auto &row : transitions)
        EXPECT_FALSE(final(row.from)) << name(row.from);
}

TEST(Table, NoPairOfStateAndEventStandsTwice) {
    std::set<std::pair<State, Event>> seen;
    for (const auto &row : transitions)
        EXPECT_TRUE(seen.insert({row.from, row.event}).second) << name(row.from) << " " << name(row.event);
}

TEST(Table, EveryStateThatIsNoEndReachesAnEnd) {
    for (const auto start : all_states) {
        std::set<State> reached{start};
        for (std::size_t round = 0; round < transitions.size(); ++round)
            for (const auto &row : transitions)
                if (reached.count(row.from)) reached.insert(row.to);
        EXPECT_TRUE(reached.count(State::failed) || reached.count(State::cancelled) ||
                    reached.count(State::done))
            << name(start);
    }
}

// A part exists from placing on: from there no path may end without cancelling it or seeing all of them
// complete.
TEST(Table, OncePartsExistAJobEndsOnlyThroughEndingOrCompletion) {
    for (const auto &row : transitions) {
        const bool before_parts = row.from == State::asked || row.from == State::planned;
        EXPECT_TRUE(!final(row.to) || before_parts || row.from == State::ending ||
                    row.event == Event::all_completed)
            << name(row.from);
        EXPECT_TRUE(row.to != State::ending || row.action == Action::cancel_parts) << name(row.from);
    }
}

TEST(Table, ACancelIsHeardInEveryStateThatHasParts) {
    for (const auto state : all_states) {
        const bool has_none = final(state) || state == State::asked || state == State::ending;
        EXPECT_TRUE(has_none || next(state, Event::cancel_asked)) << name(state);
    }
}

TEST(Names, AreReadBack) {
    for (const auto state : all_states)
        EXPECT_EQ(state_named(name(state)), state);
    EXPECT_FALSE(state_named("asleep"));
}

TEST(Decide, AllRunningBringsTheWordAndOneMissingDoesNot) {
    EXPECT_EQ(event_of(job_in(State::rendezvous, {PartState::running, PartState::running})),
              Event::all_running);
    EXPECT_EQ(event_of(job_in(State::rendezvous, {PartState::running, PartState::pending})), std::nullopt);
    EXPECT_EQ(event_of(job_in(State::rendezvous, {PartState::running, PartState::unknown})), std::nullopt);
}

TEST(Decide, ReleasedMeansThatNoPartIsHeldAnyMore) {
    EXPECT_EQ(event_of(job_in(State::releasing, {PartState::pending, PartState::running})),
              Event::all_released);
    EXPECT_EQ(event_of(job_in(State::releasing, {PartState::pending, PartState::held})), std::nullopt);
}

TEST(Decide, PatienceEndsTheWaitAndNamesTheSiteThatIsMissing) {
    auto job = job_in(State::rendezvous, {PartState::running, PartState::pending});
    job.parts[1].slurm_state = "PENDING (Resources)";
    job.entered = 1050;
    job.history = {{1000, State::releasing, ""}, {1050, State::rendezvous, ""}};
    EXPECT_FALSE(decide(job, {.patience = 60}, 1060));
    const auto late = decide(job, {.patience = 60}, 1061);
    ASSERT_TRUE(late);
    EXPECT_EQ(late->event, Event::patience_ended);
    EXPECT_EQ(late->why, "not every part could start within 60 s: site s2: job 11 is PENDING (Resources)");
}

TEST(Decide, AnyPartThatEndsBadlyEndsTheJobInEveryState) {
    for (const auto state : {State::holding, State::releasing, State::rendezvous, State::running}) {
        EXPECT_EQ(event_of(job_in(state, {PartState::running, PartState::failed})), Event::part_failed)
            << name(state);
        EXPECT_EQ(event_of(job_in(state, {PartState::gone, PartState::running})), Event::part_failed)
            << name(state);
        EXPECT_EQ(event_of(job_in(state, {PartState::running, PartState::cancelled})), Event::cancel_asked)
            << name(state);
    }
}

TEST(Decide, APartThatIsThroughBeforeAllRunHasTrainedNothing) {
    EXPECT_EQ(event_of(job_in(State::rendezvous, {PartState::completed, PartState::pending})),
              Event::part_failed);
    EXPECT_EQ(event_of(job_in(State::running, {PartState::completed, PartState::running})), std::nullopt);
    EXPECT_EQ(event_of(job_in(State::running, {PartState::completed, PartState::completed})),
              Event::all_completed);
}

TEST(Decide, EndingWaitsUntilNoPartIsLeft) {
    auto job = job_in(State::ending, {PartState::cancelled, PartState::running});
    EXPECT_EQ(event_of(job), std::nullopt);
    job.parts[1].state = PartState::gone;
    EXPECT_EQ(event_of(job), Event::gone_failed);
    job.cancelled = true;
    EXPECT_EQ(event_of(job), Event::gone_cancelled);
    job.parts[0].state = PartState::unknown; // its site does not answer: it may still be there
    EXPECT_EQ(event_of(job), std::nullopt);
}

TEST(Decide, APlanThatSbatchDoesNotFollowExpires) {
    auto job = job_in(State::planned, {PartState::unsubmitted});
    job.entered = 100;
    EXPECT_EQ(event_of(job, 119), std::nullopt);
    EXPECT_EQ(event_of(job, 121), Event::plan_expired);
}

TEST(Decide, TheMissingPluginIsNamed) {
    auto job = job_in(State::rendezvous, {PartState::running, PartState::failed});
    job.parts[1].exit_status = 78;
    EXPECT_EQ(decide(job, {}, 0)->why,
              "site s2: job 11 never got the word: is the plugin installed on its compute nodes?");
}

TEST(Json, AJobIsReadBackAsItWas) {
    auto job = job_in(State::running, {PartState::running, PartState::held});
    job.sequence = 7;
    job.user = "alice";
    job.uid = 1001;
    job.name = "train";
    job.reason = "every part runs";
    job.submitted = 1796047317.25;
    job.entered = 1796047320;
    job.user_comment = "mine | yours";
    job.options = {{"time", "30"}, {"hold", ""}};
    job.directory = "/home/alice";
    job.word = "10.0.0.1/29501";
    job.parts[0].hosts = "n[1-2]";
    job.parts[0].word_given = true;
    job.parts[1].exit_status = 3;
    job.history = {{1.5, State::planned, "x"}, {2.5, State::running, "y"}};
    job.plan.outcome = Outcome::planned;
    job.plan.stages = {{0, 3}, {4, 7}};
    job.plan.pp = 2;
    job.plan.parts = {{"s1", "h100", {{{0, 0}}}}, {"s2", "h100", {{{1, 0}}}}};
    const auto text = model::print_json(to_json(job));
    const auto json = model::parse_json(text);
    ASSERT_TRUE(json);
    const auto back = job_from_json(*json);
    ASSERT_TRUE(back) << back.error().what;
    EXPECT_EQ(*back, job);
}

TEST(Json, AnUnknownStateIsAnErrorThatNamesIt) {
    const auto json = model::parse_json(R"({"id":"s1-1","state":"asleep"})");
    ASSERT_TRUE(json);
    EXPECT_EQ(job_from_json(*json).error().what, "job: unknown state 'asleep'");
}

} // namespace
} // namespace spider::coalloc
