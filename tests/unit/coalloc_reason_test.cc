// SPDX-License-Identifier: GPL-3.0-or-later
// The sentence that says why a job waits.
#include "unit/coalloc_job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace spider::coalloc {
namespace {

using enum PartState;

class Because : public ::testing::Test {
  protected:
    void SetUp() override {
        ::setenv("TZ", "UTC", 1);
        ::tzset();
    }
    static std::string of(const Job &job, Seconds when = now) {
        return waits_because(job, Policy{}, outlook_at(when));
    }
};

// 100000 s after the epoch is 1970-01-02T03:46:40.
TEST_F(Because, AFullSiteIsNamedWithItsJobTheReasonAndTheEstimate) {
    auto job = job_in(State::releasing, {held, pending});
    EXPECT_EQ(of(job), "waiting for site s2 (job 11 PENDING (Resources)); s1 is held until the others are "
                       "about to start");
    job.parts[1].expected_start = now + 60;
    EXPECT_EQ(of(job), "waiting for site s2 (job 11 PENDING (Resources), start expected at "
                       "1970-01-02T03:47:40); s1 is held until the others are about to start");
}

TEST_F(Because, IdlePartsAreNamedWithTheEndOfPatience) {
    const auto job = job_in(State::rendezvous, {running, running, pending});
    EXPECT_EQ(of(job), "waiting for site s3 (job 12 PENDING (Resources)); the GPUs of s1, s2 are given back "
                       "at 1970-01-02T03:51:40");
}

TEST_F(Because, AGiveBackAndThePauseAfterItAreSaid) {
    auto job = job_in(State::holding, {running, pending});
    job.parts[0].giving_back = true;
    EXPECT_EQ(of(job), "waiting for site s2 (job 11 PENDING (Resources)); s1 gives its GPUs back");
    see(job, 0, sight_of(held, "JobHeldUser", 1), now);
    job.not_before = now + 20;
    EXPECT_EQ(of(job), "waiting for site s2 (job 11 PENDING (Resources)); s1 is held, no new try before "
                       "1970-01-02T03:47:00");
}

TEST_F(Because, ASilentSiteIsNamed) {
    auto job = job_in(State::rendezvous, {running, running});
    job.parts[0].idle_since = 0;
    see_nothing(job, 1, "timeout", now);
    EXPECT_EQ(of(job).substr(0, 46), "waiting for site s2 (job 11 UNKNOWN (timeout))");
    job.state = State::ending;
    job.reason = "site s1: job 10 failed";
    EXPECT_EQ(of(job), "site s2 does not answer; job 11 is cancelled there when it does: site s1: job 10 "
                       "failed");
}

TEST_F(Because, AHeldHomePartSaysHowToFreeIt) {
    auto job = job_in(State::holding, {held, held});
    job.user_hold = true;
    EXPECT_EQ(of(job), "the home part, job 10, is not to start yet, so the others wait: it is held; scontrol "
                       "release 10 frees every part");
    job = job_in(State::releasing, {pending, held});
    job.parts[0].waits_for = "Dependency";
    EXPECT_EQ(of(job), "the home part, job 10, is not to start yet, so the others wait: Slurm says "
                       "Dependency");
}

TEST_F(Because, AFurtherAttemptSaysWhenAndWhy) {
    auto job = job_in(State::asked, {failed, cancelled});
    job.attempt = 2;
    job.reason = "site s1: job 10 lost a node (NODE_FAIL)";
    EXPECT_EQ(of(job), "attempt 2 of 3 begins at 1970-01-02T03:46:50: site s1: job 10 lost a node "
                       "(NODE_FAIL)");
}

TEST_F(Because, TheOtherStatesHaveTheirSentence) {
    EXPECT_EQ(of(job_in(State::planned, {unsubmitted})), "waiting for sbatch to submit the home part");
    EXPECT_EQ(of(job_in(State::placing, {held, submitting})), "the parts are being submitted");
    auto job = job_in(State::ending, {running, failed});
    job.reason = "site s2: job 11 failed";
    EXPECT_EQ(of(job), "the parts are being cancelled: site s2: job 11 failed");
}

TEST_F(Because, NothingIsSaidOfAJobThatRunsOrHasEnded) {
    for (const auto state : {State::running, State::done, State::failed, State::cancelled})
        EXPECT_EQ(of(job_in(state, {running, running})), "") << name(state);
}

TEST_F(Because, AJobThatHasNotEndedAlwaysHasOneLineUntilItRuns) {
    for (const auto state : {State::holding, State::releasing, State::rendezvous})
        for (const auto first : {held, pending, running})
            for (const auto second : {held, pending, running}) {
                const auto text = of(job_in(state, {first, second}));
                EXPECT_NE(text, "") << name(state) << " " << name(first) << " " << name(second);
                EXPECT_EQ(text.find('\n'), std::string::npos);
            }
}

} // namespace
} // namespace spider::coalloc
