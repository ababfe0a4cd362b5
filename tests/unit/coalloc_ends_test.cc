// SPDX-License-Identifier: GPL-3.0-or-later
// What the end of a part means for the others, and when there is another attempt.
#include "coalloc/waiting.h"
#include "unit/coalloc_job.h"

#include <gtest/gtest.h>

namespace spider::coalloc {
namespace {

using enum PartState;

constexpr std::array starting{State::holding, State::releasing, State::rendezvous, State::running};

// What must follow from each end, written down beside the table: who tries again, and without the site.
struct Expected {
    PartState end;
    bool cancel, retry, replan, without_site;
};
constexpr std::array expectations{
    Expected{failed, false, true, true, false},      Expected{unprepared, false, false, true, true},
    Expected{cancelled, true, false, false, false},  Expected{timed_out, false, false, false, false},
    Expected{node_failed, false, true, true, false}, Expected{preempted, false, true, true, false},
    Expected{requeued, false, true, true, false},    Expected{never, false, false, true, true},
    Expected{gone, false, true, true, true},         Expected{left_behind, false, true, true, true},
};

Job ended(PartState end, std::size_t part, OnFailure on_failure, State state = State::rendezvous) {
    auto job = job_in(state, {running, running, running});
    job.parts[part].state = end;
    job.spec.on_failure = on_failure;
    settle(job);
    return job;
}

TEST(Ends, EveryEndOfAPartButCompletionHasARule) {
    for (int i = static_cast<int>(failed); i <= static_cast<int>(left_behind); ++i) {
        EXPECT_EQ(rule_of(static_cast<PartState>(i)).end, static_cast<PartState>(i));
        EXPECT_EQ(expectations[static_cast<std::size_t>(i - static_cast<int>(failed))].end,
                  static_cast<PartState>(i));
    }
    EXPECT_EQ(end_rules.size(), expectations.size());
}

TEST(Ends, InEveryStateTheOthersAreCancelled) {
    for (const auto &expected : expectations)
        for (const auto state : starting)
            for (const std::size_t part : {0u, 1u, 2u}) {
                const auto job = ended(expected.end, part, OnFailure::cancel, state);
                EXPECT_EQ(job.state, State::ending) << name(expected.end) << " " << name(state);
                EXPECT_EQ(job.cancelled, expected.cancel) << name(expected.end);
                Parts others{0, 1, 2};
                others.erase(others.begin() + static_cast<std::ptrdiff_t>(part));
                EXPECT_EQ(parts_for(job, Verb::cancel), others) << name(expected.end);
            }
}

TEST(Ends, OnFailureDecidesWhetherThereIsAnotherAttempt) {
    for (const auto &expected : expectations) {
        EXPECT_FALSE(ended(expected.end, 1, OnFailure::cancel).again) << name(expected.end);
        EXPECT_EQ(ended(expected.end, 1, OnFailure::retry).again, expected.retry) << name(expected.end);
        EXPECT_EQ(ended(expected.end, 1, OnFailure::replan).again, expected.replan) << name(expected.end);
    }
}

TEST(Ends, OnlyReplanLeavesASiteOutAndNeverTheHomeSite) {
    for (const auto &expected : expectations) {
        EXPECT_TRUE(ended(expected.end, 1, OnFailure::retry).left_out.empty()) << name(expected.end);
        const auto without = ended(expected.end, 1, OnFailure::replan).left_out;
        EXPECT_EQ(without == std::vector<std::string>{"s2"}, expected.without_site) << name(expected.end);
        const auto home = ended(expected.end, 0, OnFailure::replan);
        EXPECT_TRUE(home.left_out.empty()) << name(expected.end);
        EXPECT_EQ(home.again, rule_of(expected.end).again) << name(expected.end);
    }
}

TEST(Ends, AnEarlyCompletionMayBeTriedAgain) {
    EXPECT_TRUE(ended(completed, 1, OnFailure::retry).again);
    EXPECT_FALSE(ended(completed, 1, OnFailure::cancel).again);
}

TEST(Ends, AnEndThatSomebodyWantedExplainsTheOthers) {
    auto job = job_in(State::running, {failed, cancelled});
    job.spec.on_failure = OnFailure::retry;
    const auto decision = decide(job, {}, Policy{}, outlook_at(now));
    ASSERT_TRUE(decision);
    EXPECT_EQ(decision->event, Event::cancel_asked);
    EXPECT_EQ(decision->why, "site s2: job 11 was cancelled");
    settle(job);
    EXPECT_FALSE(job.again);
}

TEST(Ends, TheSentenceSaysWhichPartAndHow) {
    auto job = job_in(State::running, {running, node_failed});
    job.parts[1].slurm_state = "NODE_FAIL";
    EXPECT_EQ(decide(job, {}, Policy{}, outlook_at(now))->why, "site s2: job 11 lost a node (NODE_FAIL)");
    job.parts[1].state = failed;
    job.parts[1].slurm_state = "FAILED (NonZeroExitCode)";
    job.parts[1].exit_status = 3;
    EXPECT_EQ(decide(job, {}, Policy{}, outlook_at(now))->why,
              "site s2: job 11 ended as FAILED (NonZeroExitCode), exit status 3");
    job.parts[1].state = gone;
    EXPECT_EQ(decide(job, {}, Policy{}, outlook_at(now))->why, "site s2: job 11 is no longer known there");
}

TEST(Ends, TheMissingPluginIsNamed) {
    auto job = job_in(State::rendezvous, {running, unprepared});
    job.parts[1].exit_status = 78;
    EXPECT_EQ(decide(job, {}, Policy{}, outlook_at(now))->why,
              "site s2: job 11 never got the word: is the plugin installed on its compute nodes?");
}

TEST(Attempts, EndAtTheirLimit) {
    auto job = ended(failed, 1, OnFailure::retry);
    EXPECT_TRUE(job.again);
    job = job_in(State::rendezvous, {running, failed});
    job.spec.on_failure = OnFailure::retry;
    job.spec.attempts = 3;
    job.attempt = 2;
    settle(job);
    EXPECT_TRUE(job.again);
    job.state = State::rendezvous;
    job.attempt = 3;
    settle(job);
    EXPECT_FALSE(job.again);
}

TEST(Attempts, BeginAnewWhenEveryPartIsThrough) {
    auto job = ended(failed, 1, OnFailure::retry);
    job.word = "10.0.0.1/20000";
    job.not_before = now + 900;
    EXPECT_EQ(event_of(job), std::nullopt);
    see(job, 0, sight_of(cancelled), now);
    EXPECT_EQ(event_of(job), std::nullopt);
    see_gone(job, 2, now);
    settle(job);
    EXPECT_EQ(job.state, State::asked);
    EXPECT_EQ(job.attempt, 2);
    EXPECT_FALSE(job.again);
    EXPECT_EQ(job.word, "");
    EXPECT_EQ(job.not_before, 0);
    apply(job, {Event::planned_again, ""}, Policy{}, now);
    EXPECT_EQ(job.state, State::placing);
}

TEST(Attempts, ACancelEndsThemInEveryState) {
    for (const auto state :
         {State::asked, State::placing, State::holding, State::rendezvous, State::running, State::ending}) {
        auto job = job_in(state, {pending, pending});
        job.again = state == State::ending;
        ASSERT_TRUE(apply(job, {Event::cancel_asked, "spiderflow cancel"}, Policy{}, now));
        for (auto &part : job.parts)
            part.state = cancelled;
        settle(job);
        EXPECT_EQ(job.state, State::cancelled) << name(state);
    }
}

TEST(Attempts, ARefusalIsFinalTheFirstTimeAndLaterAnEndLikeOthers) {
    auto job = job_in(State::placing, {held, unsubmitted});
    job.spec.on_failure = OnFailure::replan;
    const Decision refused{Event::placing_failed, "site s2 refused", 1};
    auto first = job;
    apply(first, refused, Policy{}, now);
    EXPECT_FALSE(first.again);
    job.attempt = 2;
    apply(job, refused, Policy{}, now);
    EXPECT_TRUE(job.again);
    EXPECT_EQ(job.left_out, std::vector<std::string>{"s2"});
}

TEST(Ending, WaitsUntilNoPartIsLeft) {
    auto job = job_in(State::ending, {cancelled, running});
    EXPECT_EQ(event_of(job), std::nullopt);
    job.parts[1].state = gone;
    EXPECT_EQ(event_of(job), Event::gone_failed);
    job.cancelled = true;
    EXPECT_EQ(event_of(job), Event::gone_cancelled);
    job.parts[0].state = submitting; // it may be at its site
    EXPECT_EQ(event_of(job), std::nullopt);
    job.parts[0].state = unsubmitted;
    EXPECT_EQ(event_of(job), Event::gone_cancelled);
}

TEST(Ending, WaitsForAPartThatCanNeverStartUntilItIsCancelledThere) {
    auto job = job_in(State::rendezvous, {running, pending});
    see(job, 1, sight_of(never, "PartitionNodeLimit"), now);
    settle(job);
    ASSERT_EQ(job.state, State::ending);
    EXPECT_EQ(parts_for(job, Verb::cancel), (Parts{0, 1}));
    see(job, 0, sight_of(cancelled), now);
    see(job, 1, sight_of(never, "PartitionNodeLimit"), now);
    EXPECT_EQ(event_of(job), std::nullopt);
    see(job, 1, sight_of(cancelled), now);
    EXPECT_EQ(event_of(job), Event::gone_failed);
}

TEST(Silence, IsWaitedForUnlessAReplanCanDoWithoutTheSite) {
    for (const auto on_failure : {OnFailure::cancel, OnFailure::retry, OnFailure::replan}) {
        auto job = ended(failed, 1, on_failure);
        see(job, 0, sight_of(cancelled), now);
        see_nothing(job, 2, "timeout", now + 5);
        EXPECT_EQ(event_of(job, outlook_at(now + 65)), std::nullopt);
        settle(job, outlook_at(now + 66));
        EXPECT_EQ(job.state == State::asked, on_failure == OnFailure::replan);
        if (job.state != State::asked) continue;
        EXPECT_EQ(job.parts[2].state, left_behind);
        EXPECT_EQ(job.left_out, std::vector<std::string>{"s3"});
    }
}

TEST(Silence, OfTheHomeSiteIsAlwaysWaitedFor) {
    auto job = ended(failed, 1, OnFailure::replan);
    see(job, 2, sight_of(cancelled), now);
    see_nothing(job, 0, "timeout", now);
    EXPECT_EQ(event_of(job, outlook_at(now + 1e6)), std::nullopt);
}

TEST(Silence, OfAJobThatIsNotTriedAgainIsWaitedFor) {
    auto job = job_in(State::ending, {cancelled, running});
    job.spec.on_failure = OnFailure::replan;
    see_nothing(job, 1, "timeout", now);
    EXPECT_EQ(event_of(job, outlook_at(now + 1e6)), std::nullopt);
}

} // namespace
} // namespace spider::coalloc
