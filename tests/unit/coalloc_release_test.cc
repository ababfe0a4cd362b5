// SPDX-License-Identifier: GPL-3.0-or-later
// In which order parts are released, the pauses between the turns, and what a hold of the home part means.
#include "coalloc/waiting.h"
#include "unit/coalloc_job.h"

#include <gtest/gtest.h>

namespace spider::coalloc {
namespace {

using enum PartState;

Parts released_at(Job job, const Outlook &outlook) {
    settle(job, outlook);
    return parts_for(job, Verb::release, outlook);
}

TEST(Release, OfAllAtOnceWhereEverySiteHasRoom) {
    EXPECT_EQ(released_at(job_in(State::holding, {held, held, held}), outlook_at(now)), (Parts{0, 1, 2}));
}

TEST(Release, OfWhatHasNoRoomFirst) {
    const auto job = job_in(State::holding, {held, held, held});
    EXPECT_EQ(released_at(job, outlook_at(now, {true, false, true})), Parts{1});
    EXPECT_EQ(released_at(job, outlook_at(now, {false, true, false})), (Parts{0, 2}));
}

TEST(Release, OfEveryPartWhenNothingIsKnownOfTheSites) {
    EXPECT_EQ(released_at(job_in(State::holding, {held, held}), outlook_at(now, {})), (Parts{0, 1}));
}

TEST(Release, OfTheOthersWhenTheFullSiteRuns) {
    auto job = job_in(State::releasing, {held, pending});
    EXPECT_TRUE(released_at(job, outlook_at(now + 1e6)).empty());
    see(job, 1, sight_of(running), now);
    EXPECT_EQ(released_at(job, outlook_at(now)), Parts{0});
}

TEST(Release, OfTheOthersComesMarginBeforeTheFullSiteIsExpectedToStart) {
    auto job = job_in(State::releasing, {held, pending});
    see(job, 1, sight_of(pending, "Resources", 0, now + 1000), now);
    EXPECT_TRUE(released_at(job, outlook_at(now + 984)).empty());
    EXPECT_EQ(released_at(job, outlook_at(now + 985)), Parts{0});
}

TEST(Release, WaitsForTheLastOfSeveralFullSites) {
    auto job = job_in(State::releasing, {held, pending, pending});
    see(job, 1, sight_of(pending, "Resources", 0, now + 1000), now);
    EXPECT_TRUE(released_at(job, outlook_at(now + 2000)).empty()) << "one has no estimate";
    see(job, 2, sight_of(pending, "Resources", 0, now + 3000), now);
    EXPECT_TRUE(released_at(job, outlook_at(now + 2000)).empty());
    EXPECT_EQ(released_at(job, outlook_at(now + 2985)), Parts{0});
}

TEST(Release, OnAnEstimateWaitsForThePauseAndForARunningPartDoesNot) {
    auto job = job_in(State::releasing, {held, pending});
    job.not_before = now + 500;
    see(job, 1, sight_of(pending, "Resources", 0, now + 10), now);
    EXPECT_TRUE(released_at(job, outlook_at(now + 499)).empty());
    EXPECT_EQ(released_at(job, outlook_at(now + 500)), Parts{0});
    see(job, 1, sight_of(running), now);
    EXPECT_EQ(released_at(job, outlook_at(now)), Parts{0});
}

TEST(Release, OfTheFirstWaitsForThePause) {
    auto job = job_in(State::holding, {held, held});
    job.not_before = now + 500;
    EXPECT_TRUE(released_at(job, outlook_at(now + 499)).empty());
    EXPECT_EQ(released_at(job, outlook_at(now + 500)), (Parts{0, 1}));
}

TEST(Release, DoesNotFollowAPartThatGivesItsGpusBack) {
    auto job = job_in(State::holding, {running, held});
    job.parts[0].giving_back = true;
    job.not_before = now + 500;
    EXPECT_TRUE(released_at(job, outlook_at(now)).empty());
}

TEST(Release, WhoseAnswerWasLostIsSeenAndOneThatNeverArrivedIsRepeated) {
    auto job = job_in(State::holding, {held, held});
    settle(job);
    see(job, 1, sight_of(held, "JobHeldUser"), now);
    EXPECT_EQ(parts_for(job, Verb::release), (Parts{0, 1}));
    see(job, 0, sight_of(running), now);
    see(job, 1, sight_of(pending, "Resources"), now);
    EXPECT_TRUE(parts_for(job, Verb::release).empty());
    settle(job);
    EXPECT_EQ(job.state, State::rendezvous);
    EXPECT_FALSE(job.user_hold);
}

// Each was started and then requeued, held, by its site before the broker looked: nothing idles, so no
// patience would end this.
TEST(Release, AtTheRendezvousOfPartsThatTheirSitesHoldAgain) {
    auto job = job_in(State::rendezvous, {pending, pending});
    see(job, 0, sight_of(held, "JobHeldUser", 1), now);
    see(job, 1, sight_of(held, "JobHeldUser", 1), now);
    EXPECT_EQ(released_at(job, outlook_at(now + Policy{}.rest - 1)), Parts{});
    EXPECT_EQ(released_at(job, outlook_at(now + Policy{}.rest)), (Parts{0, 1}));
}

// With a patience shorter than the rest the two would else give back in turn for ever.
TEST(Patience, DoesNotCountWhileThePartThatIsMissingRests) {
    auto job = job_in(State::rendezvous, {running, pending});
    const Policy policy{.patience = 3, .rest = 5};
    see(job, 0, sight_of(running), now);
    see(job, 1, sight_of(held, "JobHeldUser", 1), now); // it has just given its GPUs back
    EXPECT_FALSE(decide(job, {}, policy, outlook_at(now + 8)));
    EXPECT_EQ(decide(job, {}, policy, outlook_at(now + 8.1))->event, Event::patience_ended);
    taken(job, {1, Verb::release}, now + 6);
    EXPECT_FALSE(decide(job, {}, policy, outlook_at(now + 9)));
    EXPECT_EQ(decide(job, {}, policy, outlook_at(now + 9.1))->event, Event::patience_ended);
}

TEST(GivingBack, IsNotOverWhileSlurmStillShowsTheOldRunOrNoHold) {
    auto job = job_in(State::holding, {running, pending});
    see(job, 0, sight_of(running), now);
    job.parts[0].giving_back = true;
    auto sight = sight_of(running, "", 1);
    sight.completing = true;
    see(job, 0, sight, now + 1); // COMPLETING, in the middle of the requeue
    EXPECT_EQ(job.parts[0].state, held);
    EXPECT_FALSE(job.parts[0].giving_back);
    see(job, 0, sight_of(pending, "None", 1), now + 1.5); // the hold comes a moment later
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 2);
    EXPECT_EQ(job.parts[0].state, held);
    EXPECT_FALSE(job.parts[0].released);
    EXPECT_FALSE(job.user_hold) << "nobody but the broker held it";
}

TEST(Running, APartThatWaitsAgainWithoutCountingAsAStartIsAnEnd) {
    auto job = job_in(State::running, {running, running});
    see(job, 1, sight_of(pending, "BeginTime"), now); // its batch step could not be launched
    EXPECT_EQ(job.parts[1].state, PartState::requeued);
    EXPECT_TRUE(job.parts[1].lingers);
}

TEST(Release, NeverUndoesAnAdministratorsHold) {
    auto job = job_in(State::holding, {held, held});
    see(job, 1, sight_of(held, "JobHeldAdmin"), now);
    EXPECT_EQ(released_at(job, outlook_at(now)), Parts{0});
}

TEST(Backoff, DoublesWithEveryTurnWithinHalfAndWholeUpToItsCap) {
    const Policy policy;
    for (int sequence = 1; sequence <= 50; ++sequence)
        for (int turn = 1; turn <= 40; ++turn) {
            auto job = job_in(State::rendezvous, {running, pending});
            job.id = "s1-" + std::to_string(sequence);
            job.turns = turn - 1;
            settle(job, outlook_at(now + 301));
            ASSERT_EQ(job.turns, turn);
            const double whole = turn <= 6 ? 30 << (turn - 1) : 1800; // 30 60 120 240 480 960 1800 ...
            const auto pause = job.not_before - (now + 301);
            EXPECT_GE(pause, whole / 2) << job.id << " turn " << turn;
            EXPECT_LE(pause, whole) << job.id << " turn " << turn;
        }
}

TEST(Backoff, KeepsTwoJobsThatGaveWayTogetherApart) {
    auto one = job_in(State::rendezvous, {running, pending}), other = one;
    other.id = "s1-8";
    settle(one, outlook_at(now + 301));
    settle(other, outlook_at(now + 301));
    EXPECT_GT(std::abs(one.not_before - other.not_before), 0.1);
}

TEST(Backoff, OfFurtherAttemptsDoublesFromTheRetryDelayUpToTheSameCap) {
    const Policy policy;
    EXPECT_EQ(pause_before_attempt(policy, 2), 10);
    EXPECT_EQ(pause_before_attempt(policy, 3), 20);
    EXPECT_EQ(pause_before_attempt(policy, 4), 40);
    EXPECT_EQ(pause_before_attempt(policy, 100), 1800);
    auto job = job_in(State::asked, {cancelled, cancelled});
    job.attempt = 3;
    EXPECT_FALSE(plan_due(job, policy, now + 19));
    EXPECT_TRUE(plan_due(job, policy, now + 20));
    job.state = State::holding;
    EXPECT_FALSE(plan_due(job, policy, now + 20));
}

TEST(HomeFirst, NoOtherPartIsReleasedBeforeTheHomePartRuns) {
    auto job = job_in(State::holding, {held, held, held});
    job.home_first = true;
    for (const auto &room : {std::vector{true, true, true}, {false, false, false}, {true, false, true}})
        EXPECT_EQ(released_at(job, outlook_at(now, room)), Parts{0});
    settle(job);
    do_all(job, Verb::release);
    see(job, 0, sight_of(pending, "BeginTime", 0, now + 3600), now);
    EXPECT_TRUE(released_at(job, outlook_at(now + 3590)).empty());
    see(job, 0, sight_of(running), now + 3600);
    EXPECT_EQ(released_at(job, outlook_at(now + 3600)), (Parts{1, 2}));
}

TEST(HomeFirst, NoOtherPartFollowsAHomePartThatGivesItsGpusBack) {
    auto job = job_in(State::holding, {running, held});
    job.home_first = job.parts[0].giving_back = true;
    EXPECT_TRUE(released_at(job, outlook_at(now)).empty());
}

TEST(HomeFirst, WithHoldNothingIsReleasedUntilItsUserReleasesTheHomePart) {
    auto job = job_in(State::holding, {held, held});
    job.home_first = job.user_hold = true;
    see(job, 0, sight_of(held, "JobHeldUser"), now);
    EXPECT_TRUE(released_at(job, outlook_at(now)).empty());
    see(job, 0, sight_of(pending, "Priority"), now);
    EXPECT_FALSE(job.user_hold);
    EXPECT_TRUE(released_at(job, outlook_at(now)).empty());
    see(job, 0, sight_of(running), now);
    EXPECT_EQ(released_at(job, outlook_at(now)), Parts{1});
}

TEST(HomeHeld, LaterByItsUserHoldsTheOthersAgain) {
    auto job = job_in(State::rendezvous, {pending, pending, running});
    see(job, 0, sight_of(held, "JobHeldUser"), now);
    EXPECT_TRUE(job.user_hold);
    const auto decision = decide(job, {}, Policy{}, outlook_at(now));
    ASSERT_TRUE(decision);
    EXPECT_EQ(decision->event, Event::home_held);
    EXPECT_EQ(decision->why, "the home part, job 10, is not to start: it is held; scontrol release 10 frees "
                             "every part");
    settle(job);
    EXPECT_EQ(job.state, State::holding);
    EXPECT_EQ(parts_for(job, Verb::hold), Parts{1});
    EXPECT_EQ(parts_for(job, Verb::give_back), Parts{2});
    EXPECT_TRUE(parts_for(job, Verb::release).empty());
}

TEST(HomeHeld, IsOverWhenItsUserReleasesItAndTheOthersFollowOnceItRuns) {
    auto job = job_in(State::rendezvous, {pending, pending});
    see(job, 0, sight_of(held, "JobHeldUser"), now);
    settle(job);
    do_all(job, Verb::hold);
    EXPECT_EQ(job.parts[1].state, held);
    EXPECT_TRUE(released_at(job, outlook_at(now + 1e6)).empty());
    see(job, 0, sight_of(pending, "Resources"), now);
    EXPECT_FALSE(job.user_hold);
    see(job, 0, sight_of(running), now);
    EXPECT_EQ(released_at(job, outlook_at(now)), Parts{1});
}

TEST(HomeHeld, ByABeginTimeOrADependencyThatCameLaterToo) {
    for (const auto *reason : {"BeginTime", "Dependency", "DependencyNeverSatisfied"}) {
        auto job = job_in(State::rendezvous, {pending, pending});
        see(job, 0, sight_of(pending, reason), now);
        EXPECT_EQ(event_of(job), Event::home_held) << reason;
        settle(job);
        EXPECT_EQ(job.state, State::holding);
        EXPECT_EQ(parts_for(job, Verb::hold), Parts{1}) << reason;
    }
    for (const auto *reason : {"Resources", "Priority", "None"}) {
        auto job = job_in(State::rendezvous, {pending, pending});
        see(job, 0, sight_of(pending, reason), now);
        EXPECT_EQ(event_of(job), std::nullopt) << reason;
    }
}

TEST(HomeHeld, WhileNoPartIdlesIsNoTurnAndBringsNoPause) {
    auto job = job_in(State::rendezvous, {pending, pending});
    see(job, 0, sight_of(held, "JobHeldUser"), now);
    settle(job);
    EXPECT_EQ(job.state, State::holding);
    EXPECT_EQ(job.turns, 0);
    EXPECT_EQ(job.not_before, 0);
}

// It ran and was held again by its site, which no user's hold outlives.
TEST(HomeHeld, IsOverWhenTheHomePartHasRunMeanwhile) {
    auto job = job_in(State::releasing, {pending, held});
    see(job, 0, sight_of(held, "JobHeldUser"), now);
    EXPECT_TRUE(job.user_hold);
    see(job, 0, sight_of(held, "JobHeldUser", 1), now + 60);
    EXPECT_FALSE(job.user_hold);
    EXPECT_EQ(released_at(job, outlook_at(now + 60 + Policy{}.rest)), (Parts{0, 1}));
}

TEST(HomeHeld, WhileNoOtherPartIsFreeChangesNothing) {
    auto job = job_in(State::releasing, {pending, held});
    see(job, 0, sight_of(pending, "BeginTime"), now);
    EXPECT_EQ(event_of(job), std::nullopt);
    EXPECT_FALSE(due(job, 1, Policy{}, outlook_at(now + 1e6)));
}

} // namespace
} // namespace spider::coalloc
