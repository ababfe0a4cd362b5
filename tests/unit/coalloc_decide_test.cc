// SPDX-License-Identifier: GPL-3.0-or-later
// When all start, who gives GPUs back, and what a look at a part shows.
#include "coalloc/waiting.h"
#include "unit/coalloc_job.h"

#include <gtest/gtest.h>

namespace spider::coalloc {
namespace {

using enum PartState;

TEST(Decide, AllRunningBringsTheWordAndOneMissingDoesNot) {
    EXPECT_EQ(event_of(job_in(State::rendezvous, {running, running})), Event::all_running);
    EXPECT_EQ(event_of(job_in(State::rendezvous, {running, pending})), std::nullopt);
    EXPECT_EQ(event_of(job_in(State::rendezvous, {running, held})), std::nullopt);
}

TEST(Decide, APartThatIsToGiveBackDoesNotCountAsRunning) {
    auto job = job_in(State::rendezvous, {running, running});
    job.parts[1].giving_back = true;
    EXPECT_EQ(event_of(job), std::nullopt);
}

TEST(Decide, APartOfASilentSiteCountsAsWhatItWas) {
    auto job = job_in(State::rendezvous, {running, running});
    see_nothing(job, 1, "timeout", now + 5);
    EXPECT_EQ(job.parts[1].slurm_state, "UNKNOWN (timeout)");
    EXPECT_EQ(event_of(job), Event::all_running);
    auto waiting = job_in(State::rendezvous, {running, pending});
    see_nothing(waiting, 1, "timeout", now + 5);
    EXPECT_EQ(event_of(waiting), std::nullopt);
}

TEST(Decide, ReleasedMeansThatNoPartIsHeldAnyMore) {
    EXPECT_EQ(event_of(job_in(State::releasing, {pending, running})), Event::all_released);
    EXPECT_EQ(event_of(job_in(State::releasing, {pending, held})), std::nullopt);
}

TEST(Decide, APartThatIsThroughBeforeAllRunHasTrainedNothing) {
    EXPECT_EQ(event_of(job_in(State::rendezvous, {completed, pending})), Event::part_failed);
    EXPECT_EQ(event_of(job_in(State::running, {completed, running})), std::nullopt);
    EXPECT_EQ(event_of(job_in(State::running, {completed, completed})), Event::all_completed);
}

TEST(Decide, APlanThatSbatchDoesNotFollowExpires) {
    auto job = job_in(State::planned, {unsubmitted});
    job.entered = 100;
    EXPECT_EQ(event_of(job, outlook_at(119)), std::nullopt);
    EXPECT_EQ(event_of(job, outlook_at(121)), Event::plan_expired);
}

TEST(Decide, ADroppedPlanIsACancel) {
    auto job = job_in(State::planned, {unsubmitted});
    apply(job, {Event::plan_dropped, "sbatch says so"}, Policy{}, now);
    EXPECT_EQ(job.state, State::cancelled);
    EXPECT_TRUE(job.cancelled);
}

TEST(Word, IsAskedForEachPartUntilItsSiteHasTakenIt) {
    auto job = job_in(State::rendezvous, {running, running});
    settle(job);
    ASSERT_EQ(job.state, State::running);
    EXPECT_EQ(parts_for(job, Verb::word), (Parts{0, 1}));
    taken(job, {0, Verb::word}, now);
    EXPECT_EQ(parts_for(job, Verb::word), Parts{1});
}

TEST(Patience, CountsFromTheFirstIdlePartAndNamesTheSiteThatIsMissing) {
    auto job = job_in(State::rendezvous, {running, running, pending});
    job.parts[0].idle_since = now + 50;
    EXPECT_EQ(event_of(job, outlook_at(now + 300)), std::nullopt);
    const auto late = decide(job, {}, Policy{}, outlook_at(now + 301));
    ASSERT_TRUE(late);
    EXPECT_EQ(late->event, Event::patience_ended);
    EXPECT_EQ(late->why, "site s2 gives its GPUs back after 300 s without the others: site s3: job 12 is "
                         "PENDING (Resources)");
}

TEST(Patience, DoesNotRunWhileNoPartIdles) {
    EXPECT_EQ(event_of(job_in(State::rendezvous, {pending, pending}), outlook_at(now + 1e6)), std::nullopt);
}

TEST(Patience, MakesEveryIdlePartGiveBackAndLeavesTheQueuedOneInItsQueue) {
    auto job = job_in(State::rendezvous, {running, running, pending});
    settle(job, outlook_at(now + 301));
    EXPECT_EQ(job.state, State::holding);
    EXPECT_EQ(job.turns, 1);
    EXPECT_EQ(parts_for(job, Verb::give_back, outlook_at(now + 301)), (Parts{0, 1}));
    EXPECT_TRUE(parts_for(job, Verb::hold).empty());
    EXPECT_TRUE(job.parts[2].released);
}

TEST(Patience, AlsoEndsWhileHoldingForAPartThatStartedMeanwhile) {
    auto job = job_in(State::holding, {held, running, pending});
    job.parts[1].idle_since = now - 301;
    EXPECT_EQ(event_of(job), Event::patience_ended);
}

TEST(GiveBack, IsAskedAgainUntilTheSiteCountsAStartMore) {
    auto job = job_in(State::rendezvous, {running, pending});
    settle(job, outlook_at(now + 301));
    taken(job, {0, Verb::give_back}, now + 301);
    see(job, 0, sight_of(running), now + 302);
    EXPECT_EQ(parts_for(job, Verb::give_back), Parts{0});
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 303);
    EXPECT_TRUE(parts_for(job, Verb::give_back).empty());
    EXPECT_FALSE(job.parts[0].giving_back);
    EXPECT_FALSE(job.parts[0].released);
    EXPECT_EQ(job.parts[0].restarts, 1);
}

TEST(GiveBack, OfTheHomePartIsNoHoldByItsUser) {
    auto job = job_in(State::rendezvous, {running, pending});
    settle(job, outlook_at(now + 301));
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 303);
    EXPECT_FALSE(job.user_hold);
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 304);
    EXPECT_FALSE(job.user_hold);
}

TEST(GiveBack, IsOverWhenThePartAlreadyRunsAnew) {
    auto job = job_in(State::rendezvous, {running, pending});
    settle(job, outlook_at(now + 301));
    see(job, 0, sight_of(running, "", 1), now + 400); // its user released it before the broker looked
    EXPECT_FALSE(job.parts[0].giving_back);
    EXPECT_EQ(job.parts[0].idle_since, now + 400);
}

TEST(Requeue, AfterTheWordIsAnEnd) {
    auto job = job_in(State::running, {running, running});
    see(job, 1, sight_of(pending, "BeginTime", 1), now);
    EXPECT_EQ(job.parts[1].state, requeued);
    EXPECT_TRUE(job.parts[1].lingers);
    EXPECT_EQ(event_of(job), Event::part_failed);
    settle(job);
    EXPECT_EQ(parts_for(job, Verb::cancel), (Parts{0, 1}));
    see(job, 1, sight_of(cancelled), now + 1);
    EXPECT_EQ(parts_for(job, Verb::cancel), Parts{0});
}

// Its site may have the word without that the broker knows it, and the others have it or get it next.
TEST(Requeue, OnceAllAreToldToRunIsAnEndEvenWhereTheWordWasNotConfirmed) {
    auto job = job_in(State::rendezvous, {running, running});
    settle(job);
    see(job, 0, sight_of(pending, "BeginTime", 1), now);
    EXPECT_EQ(job.parts[0].state, requeued);
    settle(job);
    EXPECT_TRUE(parts_for(job, Verb::word).empty());
    EXPECT_EQ(job.state, State::ending);
}

TEST(Requeue, BeforeTheWordIsAnotherWait) {
    auto job = job_in(State::rendezvous, {running, running, pending});
    see(job, 1, sight_of(pending, "Resources", 1), now + 10);
    EXPECT_EQ(event_of(job, outlook_at(now + 20)), std::nullopt);
    EXPECT_EQ(job.parts[1].idle_since, 0);
}

TEST(WoundWait, TheYoungerGivesBackWhatTheOlderWaitsFor) {
    auto older = job_in(State::rendezvous, {running, pending});
    auto younger = job_in(State::rendezvous, {pending, running});
    older.sequence = 3;
    older.id = "s1-3";
    const std::vector<const Job *> live{&older, &younger};
    const auto decision = decide(younger, live, Policy{}, outlook_at(now));
    ASSERT_TRUE(decision);
    EXPECT_EQ(decision->event, Event::gave_way);
    EXPECT_EQ(decision->why, "site s2 gives its GPUs back for job s1-3, which is older and waits there");
    EXPECT_EQ(event_of(older, outlook_at(now), live), std::nullopt);
    settle(younger, outlook_at(now), live);
    EXPECT_EQ(younger.state, State::holding);
    EXPECT_TRUE(younger.parts[1].giving_back);
}

TEST(WoundWait, NobodyGivesWayToAJobThatHoldsNothingOrWaitsElsewhere) {
    auto older = job_in(State::rendezvous, {pending, pending});
    auto younger = job_in(State::rendezvous, {pending, running});
    older.sequence = 3;
    const std::vector<const Job *> live{&older, &younger};
    EXPECT_EQ(event_of(younger, outlook_at(now), live), std::nullopt);
    older = job_in(State::rendezvous, {running, pending});
    older.sequence = 3;
    older.parts[1].site = "s9";
    EXPECT_EQ(event_of(younger, outlook_at(now), live), std::nullopt);
}

TEST(WoundWait, AJobThatHasTheWordGivesNothingBack) {
    auto older = job_in(State::rendezvous, {running, pending});
    auto younger = job_in(State::running, {running, running});
    older.sequence = 3;
    const std::vector<const Job *> live{&older, &younger};
    EXPECT_EQ(event_of(younger, outlook_at(now), live), std::nullopt);
}

TEST(Clocks, TheEstimateOfASiteTenMinutesAheadIsOnThisHostsClock) {
    auto job = job_in(State::releasing, {pending, held});
    job.parts[0].clock_ahead = 600;
    see(job, 0, sight_of(pending, "Resources", 0, now + 600 + 100), now);
    EXPECT_EQ(job.parts[0].expected_start, now + 100);
    EXPECT_FALSE(due(job, 1, Policy{}, outlook_at(now + 84)));
    EXPECT_TRUE(due(job, 1, Policy{}, outlook_at(now + 85)));
}

TEST(Clocks, PatienceCountsFromWhenThisHostSawThePartRun) {
    auto job = job_in(State::rendezvous, {pending, pending});
    job.parts[0].clock_ahead = -600;
    see(job, 0, sight_of(running, "", 0, now - 600), now);
    EXPECT_EQ(job.parts[0].idle_since, now);
    EXPECT_EQ(event_of(job, outlook_at(now + 299)), std::nullopt);
}

// By hand: 4 GPUs idle 30 s and give back, 4 idle 10 s until the word; 160 in all, 120 after the first.
TEST(IdleTime, AreTheGpuSecondsBetweenTheStartAndTheWordOrTheGiveBack) {
    auto job = job_in(State::rendezvous, {pending, pending});
    see(job, 0, sight_of(running), now);
    EXPECT_EQ(idle_gpu_seconds(job, now + 20), 80);
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 30);
    EXPECT_EQ(idle_gpu_seconds(job, now + 99), 120);
    see(job, 1, sight_of(running), now + 100);
    job.state = State::running;
    taken(job, {1, Verb::word}, now + 110);
    EXPECT_EQ(job.idle_gpu_seconds, 160);
    EXPECT_EQ(idle_gpu_seconds(job, now + 1000), 160);
}

// 4 GPUs 50 s until the further attempt; the end would count them no more.
TEST(IdleTime, OfAPartThatIsLeftBehindIsCountedToo) {
    auto job = job_in(State::ending, {cancelled, running});
    job.again = true;
    apply(job, {Event::gone_again, ""}, Policy{}, now + 50);
    EXPECT_EQ(job.parts[1].state, left_behind);
    EXPECT_EQ(job.idle_gpu_seconds, 200);
}

TEST(IdleTime, EndsWithTheJob) {
    auto job = job_in(State::ending, {cancelled, running});
    apply(job, {Event::gone_failed, ""}, Policy{}, now + 50);
    EXPECT_EQ(idle_gpu_seconds(job, now + 500), 200);
}

TEST(Look, AtAPartThatIsOverDoesNotBringItBack) {
    auto job = job_in(State::running, {running, failed});
    see(job, 1, sight_of(running), now);
    EXPECT_EQ(job.parts[1].state, failed);
    see_gone(job, 1, now);
    EXPECT_EQ(job.parts[1].state, failed);
}

TEST(Look, AnAnswerEndsTheSilence) {
    auto job = job_in(State::rendezvous, {pending, pending});
    see_nothing(job, 1, "timeout", now + 5);
    see_nothing(job, 1, "timeout", now + 9);
    EXPECT_EQ(job.parts[1].unseen_since, now + 5);
    see(job, 1, sight_of(pending, "Priority"), now + 10);
    EXPECT_EQ(job.parts[1].unseen_since, 0);
    EXPECT_EQ(job.parts[1].slurm_state, "PENDING (Priority)");
    EXPECT_EQ(job.parts[1].waits_for, "Priority");
}

} // namespace
} // namespace spider::coalloc
