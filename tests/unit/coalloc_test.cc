// SPDX-License-Identifier: GPL-3.0-or-later
// The table, its names, and the journal's form of a job.
#include "unit/coalloc_job.h"

#include <gtest/gtest.h>

#include <set>

namespace spider::coalloc {
namespace {

constexpr std::array all_states{State::asked,     State::planned,    State::placing,  State::holding,
                                State::releasing, State::rendezvous, State::running,  State::ending,
                                State::done,      State::failed,     State::cancelled};

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

TEST(Table, EveryEventAndEveryActionIsUsed) {
    for (int event = 0; event <= static_cast<int>(Event::gone_cancelled); ++event)
        EXPECT_TRUE(std::any_of(transitions.begin(), transitions.end(), [&](const auto &row) {
            return row.event == static_cast<Event>(event);
        })) << name(static_cast<Event>(event));
    for (int action = 0; action <= static_cast<int>(Action::cancel_parts); ++action)
        EXPECT_TRUE(std::any_of(transitions.begin(), transitions.end(), [&](const auto &row) {
            return row.action == static_cast<Action>(action);
        })) << name(static_cast<Action>(action));
}

// A part exists from placing on: from there no path may end, or begin anew, without cancelling it or seeing
// all of them complete.
TEST(Table, OncePartsExistAJobEndsOnlyThroughEndingOrCompletion) {
    for (const auto &row : transitions) {
        const bool before_parts = row.from == State::asked || row.from == State::planned;
        const bool without_parts = final(row.to) || row.to == State::asked;
        EXPECT_TRUE(!without_parts || before_parts || row.from == State::ending ||
                    row.event == Event::all_completed)
            << name(row.from);
        EXPECT_TRUE(row.to != State::ending || row.action == Action::cancel_parts) << name(row.from);
    }
}

TEST(Table, ACancelIsHeardInEveryStateThatIsNoEnd) {
    for (const auto state : all_states)
        EXPECT_EQ(next(state, Event::cancel_asked).has_value(), !final(state)) << name(state);
}

TEST(Table, OnlyFromRendezvousIsTheWordGivenAndNoWayLeadsBackFromThere) {
    for (const auto &row : transitions) {
        EXPECT_EQ(row.action == Action::give_word, row.to == State::running) << name(row.from);
        if (row.from == State::running) {
            EXPECT_TRUE(final(row.to) || row.to == State::ending) << name(row.event);
        }
    }
}

TEST(Names, OfStatesAreReadBackAndNoneStandsTwice) {
    std::set<std::string_view> names;
    for (const auto state : all_states) {
        EXPECT_EQ(state_named(name(state)), state);
        EXPECT_TRUE(names.insert(name(state)).second);
    }
    EXPECT_FALSE(state_named("asleep"));
}

TEST(Names, OfPartStatesEventsAndVerbsDiffer) {
    std::set<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(PartState::left_behind); ++i)
        EXPECT_TRUE(names.insert(name(static_cast<PartState>(i))).second) << i;
    EXPECT_EQ(name(PartState::running), "running");
    EXPECT_EQ(name(PartState::left_behind), "left_behind");
    EXPECT_EQ(name(Event::gone_cancelled), "gone_cancelled");
    EXPECT_EQ(name(Verb::give_back), "give_back");
    EXPECT_EQ(name(Verb::cancel), "cancel");
}

Job full_job() {
    auto job = job_in(State::running, {PartState::running, PartState::held});
    job.user = "alice";
    job.uid = 1001;
    job.name = "train";
    job.reason = "every part runs";
    job.submitted = 1796047317.25;
    job.entered = 1796047320;
    job.cancelled = true;
    job.user_comment = "mine | yours";
    job.options = {{"time", "30"}, {"hold", ""}};
    job.directory = "/home/alice";
    job.home_first = job.user_hold = job.again = true;
    job.word = "10.0.0.1/29501";
    const auto config = model::parse_json(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,)"
                                          R"("intermediate_size":16,"num_hidden_layers":8,)"
                                          R"("num_attention_heads":2,"vocab_size":99})");
    job.spec.model = *model::read_hugging_face_config(*config);
    job.spec.global_batch = 64;
    job.spec.on_failure = OnFailure::replan;
    job.spec.attempts = 5;
    job.attempt = 2;
    job.left_out = {"s3", "s4"};
    job.turns = 4;
    job.not_before = 1796047400.5;
    job.idle_gpu_seconds = 86.25;
    job.history = {{1.5, State::planned, "x"}, {2.5, State::running, "y"}};
    job.plan.outcome = Outcome::planned;
    job.plan.stages = {{0, 3}, {4, 7}};
    job.plan.pp = 2;
    job.plan.parts = {{"s1", "h100", {{{0, 0}}}}, {"s2", "h100", {{{1, 0}}}}};
    job.parts[0] = {"s1", 10,        "alice", 4,    PartState::running,
                    true, "RUNNING", "x",     3,    "n[1-2]",
                    "/d", "o-%j",    "e-%j",  2,    true,
                    true, true,      11.5,    12.5, -600,
                    13.5};
    return job;
}

TEST(Json, AJobIsReadBackAsItWas) {
    const auto job = full_job();
    const auto json = model::parse_json(model::print_json(to_json(job)));
    ASSERT_TRUE(json);
    const auto back = job_from_json(*json);
    ASSERT_TRUE(back) << back.error().what;
    EXPECT_EQ(*back, job);
}

TEST(Json, EveryStateOfAPartIsReadBack) {
    for (int i = 0; i <= static_cast<int>(PartState::left_behind); ++i) {
        const auto job = job_in(State::holding, {PartState::held, static_cast<PartState>(i)});
        const auto back = job_from_json(to_json(job));
        ASSERT_TRUE(back) << back.error().what;
        EXPECT_EQ(*back, job);
    }
}

TEST(Json, AnUnknownStateIsAnErrorThatNamesIt) {
    const auto json = model::parse_json(R"({"id":"s1-1","state":"asleep"})");
    ASSERT_TRUE(json);
    EXPECT_EQ(job_from_json(*json).error().what, "job: unknown state 'asleep'");
    auto wrong = to_json(full_job());
    wrong["parts"][0]["state"] = "lost";
    EXPECT_EQ(job_from_json(wrong).error().what, "part: unknown state 'lost'");
}

TEST(History, EveryStepIsInItWithItsTimeAndReason) {
    auto job = job_in(State::planned, {PartState::held});
    apply(job, {Event::home_submitted, "sbatch brought the home part"}, Policy{}, now + 5);
    ASSERT_EQ(job.history.size(), 1u);
    EXPECT_EQ(job.history[0], (HistoryLine{now + 5, State::placing, "sbatch brought the home part"}));
    EXPECT_EQ(job.entered, now + 5);
    EXPECT_EQ(job.reason, "sbatch brought the home part");
}

TEST(History, IsBoundedAndKeepsHowItBeganAndTheLatest) {
    auto job = job_in(State::placing, {PartState::held});
    apply(job, {Event::all_held, "first"}, Policy{}, now);
    for (int turn = 0; turn < 300; ++turn)
        apply(job, {Event::patience_ended, std::to_string(turn)}, Policy{}, now + turn);
    ASSERT_EQ(job.history.size(), longest_history);
    EXPECT_EQ(job.history.front().why, "first");
    EXPECT_EQ(job.history[1].why, "0");
    EXPECT_EQ(job.history.back().why, "299");
    EXPECT_EQ(job.history[longest_history - 2].why, "298");
}

TEST(Apply, AnEventThatMeansNothingInAStateChangesNothing) {
    auto job = job_in(State::done, {PartState::completed});
    const auto before = job;
    EXPECT_FALSE(apply(job, {Event::cancel_asked, "too late"}, Policy{}, now + 1));
    EXPECT_EQ(job, before);
}

} // namespace
} // namespace spider::coalloc
