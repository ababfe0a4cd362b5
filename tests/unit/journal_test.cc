// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/journal.h"
#include "unit/broker_sample.h"
#include "unit/journal_file.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <unistd.h>

namespace spider::broker {
namespace {

using coalloc::State;

Effect effect(const std::string &job, const std::string &verb, Seconds begun = 1.5) {
    return {.job = job, .attempt = 1, .site = "b", .verb = verb, .begun = begun};
}

std::vector<std::string> verbs(const std::vector<Effect> &effects) {
    std::vector<std::string> found;
    for (const auto &one : effects)
        found.push_back(one.verb);
    return found;
}

TEST_F(JournalFile, GivesJobsBackAfterAReopen) {
    {
        auto journal = opened();
        ASSERT_TRUE(journal.save(sample("a-2", 2, State::planned)));
        ASSERT_TRUE(journal.save(sample("a-1", 1, State::done)));
        ASSERT_TRUE(journal.save(sample("a-2", 2, State::running)));
    }
    auto journal = opened();
    EXPECT_EQ(journal.path(), path);
    const auto jobs = journal.load(10);
    ASSERT_TRUE(jobs) << jobs.error().what;
    ASSERT_EQ(jobs->size(), 2u);
    EXPECT_EQ((*jobs)[0], sample("a-1", 1, State::done));
    EXPECT_EQ((*jobs)[1], sample("a-2", 2, State::running));
    EXPECT_EQ(journal.load(0)->size(), 1u);
}

TEST_F(JournalFile, AndWhatSqlitePutsBesideItAreForItsOwnerAlone) {
    const auto modes = [&] {
        std::set<unsigned> found;
        for (const auto *beside : {"", "-wal", "-shm"})
            found.insert(mode_of(path + beside));
        return found;
    };
    const auto mask = ::umask(0);
    {
        auto journal = opened();
        ASSERT_TRUE(journal.save(sample("a-1", 1, State::planned)));
        EXPECT_EQ(modes(), std::set<unsigned>{0600});
        ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
    }
    auto journal = opened();
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::running)));
    EXPECT_EQ(modes(), std::set<unsigned>{0600});
    EXPECT_EQ(::umask(mask), 0u) << "the caller's umask has changed";
}

TEST_F(JournalFile, NeverGivesANumberTwice) {
    std::int64_t last = 0;
    EXPECT_EQ(*opened().last_sequence(), 0);
    for (int i = 0; i < 3; ++i) {
        auto journal = opened();
        for (int k = 0; k < 3; ++k) {
            const auto number = journal.next_sequence();
            ASSERT_TRUE(number);
            EXPECT_GT(*number, last);
            last = *number;
        }
    }
}

TEST_F(JournalFile, GoesOnAboveARaisedNumberAndNeverDown) {
    for (const auto &[least, next] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {17, 18}, {3, 19}, {19, 20}, {-5, 21}}) {
        auto journal = opened();
        ASSERT_TRUE(journal.raise_sequence(least));
        const auto number = journal.next_sequence();
        ASSERT_TRUE(number) << number.error().what;
        EXPECT_EQ(*number, next) << least;
        EXPECT_EQ(*journal.last_sequence(), next);
    }
}

TEST_F(JournalFile, OfVersion1KeepsItsJobsAndItsNumbers) {
    make_version_1();
    for (int i = 0; i < 2; ++i) { // the second time there is nothing to bring up
        auto journal = opened();
        const auto jobs = journal.load(10);
        ASSERT_TRUE(jobs) << jobs.error().what;
        ASSERT_EQ(jobs->size(), 3u);
        const auto &done = (*jobs)[0], &rendezvous = (*jobs)[1], &ending = (*jobs)[2];
        EXPECT_EQ(done.id, "a-3");
        EXPECT_EQ(done.state, State::done);
        EXPECT_EQ(done.options.at("time"), "60");
        EXPECT_EQ(done.word, "10.0.0.1/20003");
        ASSERT_EQ(done.history.size(), 2u);
        EXPECT_EQ(rendezvous.state, State::rendezvous);
        EXPECT_EQ(rendezvous.plan.stages.size(), 2u);
        EXPECT_EQ(rendezvous.parts[0].hosts, "n[1-2]");
        EXPECT_EQ(rendezvous.parts[1].state, coalloc::PartState::pending);
        EXPECT_EQ(rendezvous.parts[1].gpus, 2) << "tp=2, one slot";
        EXPECT_TRUE(ending.cancelled);
        EXPECT_EQ(ending.uid, 1001u);
        EXPECT_EQ(ending.parts[1].state, coalloc::PartState::submitting) << "it was called unknown";
        ASSERT_TRUE(journal.begin(effect("a-5", "cancel")));
        EXPECT_EQ(*journal.next_sequence(), 7 + i);
    }
}

TEST_F(JournalFile, OfVersion1ThatCannotBeBroughtUpStaysAsItWas) {
    make_version_1("UPDATE jobs SET record='{' WHERE id='a-5'");
    const auto journal = Journal::open(path);
    ASSERT_FALSE(journal);
    EXPECT_TRUE(journal.error().what.starts_with("journal " + path + ": job a-5: ")) << journal.error().what;
    EXPECT_EQ(ask("PRAGMA user_version"), "1");
    EXPECT_EQ(ask("SELECT count(*) FROM sqlite_master WHERE name='effects'"), "0");
}

TEST_F(JournalFile, OfANewerVersionIsRefused) {
    ask("PRAGMA user_version=99");
    const auto journal = Journal::open(path);
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().what, "journal " + path +
                                        ": written by a newer spiderflowd (schema 99); "
                                        "install that version or move the file away");
}

TEST_F(JournalFile, ThatIsNoDatabaseIsAnErrorThatNamesItAndTheCure) {
    write(std::string(4096, 'x'));
    const auto journal = Journal::open(path);
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().what, "journal " + path +
                                        ": open: file is not a database; put a backup in "
                                        "its place, or move it away (for the journal, then run spiderflowd --recover)");
}

TEST_F(JournalFile, WithoutItsFolderIsAnErrorThatNamesIt) {
    const auto lost = path + ".d/journal.db";
    const auto journal = Journal::open(lost);
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().what,
              "journal " + lost +
                  ": open: unable to open database file (No such file or directory); its "
                  "folder must be there, and writable for the user that spiderflowd runs as");
}

TEST_F(JournalFile, AnEffectIsUnfinishedUntilItsEnd) {
    auto journal = opened();
    const auto first = journal.begin(effect("a-1", "submit", 1796047157.25));
    const auto second = journal.begin(effect("a-1", "word"));
    ASSERT_TRUE(first && second);
    EXPECT_LT(*first, *second);
    ASSERT_TRUE(journal.end(*second, "site b: no", 9));
    ASSERT_TRUE(journal.end(4711, "done", 9)) << "gone with its job";
    const auto open = journal.unfinished();
    ASSERT_TRUE(open) << open.error().what;
    auto expected = effect("a-1", "submit", 1796047157.25);
    expected.number = *first;
    EXPECT_EQ(*open, std::vector<Effect>{expected});
    EXPECT_EQ(ask("SELECT outcome || ended FROM effects WHERE verb='word'"), "site b: no9.0");
}

TEST_F(JournalFile, AnEffectThatWasUnderWayWhenTheBrokerWasKilledIsUnfinished) {
    const auto child = ::fork();
    if (child == 0) {
        auto journal = Journal::open(path);
        if (!journal) ::_exit(1);
        const auto done = journal->begin(effect("a-1", "release"));
        if (!done || !journal->end(*done, "done", 2) || !journal->begin(effect("a-1", "submit"))) ::_exit(1);
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child could not write";
    auto journal = opened();
    EXPECT_EQ(verbs(*journal.unfinished()), std::vector<std::string>{"submit"});
}

TEST_F(JournalFile, AnEndedJobLosesItsOpenEffectsAndTheirNumbersAreNotUsedAgain) {
    auto journal = opened();
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::ending)));
    ASSERT_TRUE(journal.save(sample("a-2", 2, State::running)));
    ASSERT_TRUE(journal.begin(effect("a-2", "word")));
    const auto late = journal.begin(effect("a-1", "cancel"));
    ASSERT_TRUE(late && journal.save(sample("a-1", 1, State::failed)));
    EXPECT_EQ(verbs(*journal.unfinished()), std::vector<std::string>{"word"});
    const auto next = journal.begin(effect("a-2", "cancel"));
    ASSERT_TRUE(next && journal.end(*late, "done", 3)); // the answer to the first cancel
    EXPECT_EQ(verbs(*journal.unfinished()), (std::vector<std::string>{"word", "cancel"}));
}

TEST_F(JournalFile, ARequestIsKeptUntilItsJobEndsAndThenIsNowhere) {
    auto journal = opened();
    const auto secret = "WANDB_API_KEY=0xfeed" + std::string(20'000, 's'); // several pages
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::planned)));
    ASSERT_TRUE(journal.keep_request("a-1", "an older one"));
    ASSERT_TRUE(journal.keep_request("a-1", secret));
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::running)));
    EXPECT_EQ(*journal.request("a-1"), secret);
    EXPECT_TRUE(holds("WANDB_API_KEY")) << "the test looks in the wrong place";
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::done)));
    const auto gone = journal.request("a-1");
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error(), (Error{Errc::not_found, "journal " + path + ": no request of a-1 is kept"}));
    EXPECT_FALSE(holds("WANDB_API_KEY"));
    EXPECT_FALSE(holds(std::string(64, 's')));
    EXPECT_FALSE(holds("an older one"));
}

TEST_F(JournalFile, ARequestGoesFromTheLogTooWhenNobodyReadsAnyMore) {
    auto journal = opened();
    ASSERT_TRUE(journal.save(sample("a-1", 1, State::planned)));
    ASSERT_TRUE(journal.keep_request("a-1", "WANDB_API_KEY=0xfeed"));
    {
        const Other reader(path, "BEGIN; SELECT count(*) FROM jobs");
        ASSERT_TRUE(journal.save(sample("a-1", 1, State::done)));
        EXPECT_FALSE(journal.request("a-1"));
        EXPECT_TRUE(holds("WANDB_API_KEY")) << "the reader should have kept it there";
    }
    ASSERT_TRUE(journal.prune(10));
    EXPECT_FALSE(holds("WANDB_API_KEY"));
}

TEST_F(JournalFile, ARequestThatADeadBrokerLeftGoesWithTheNextPrune) {
    {
        auto journal = opened();
        ASSERT_TRUE(journal.keep_request("a-1", "WANDB_API_KEY=0xfeed")); // its job was never written
    }
    auto journal = opened();
    ASSERT_TRUE(journal.prune(10));
    EXPECT_FALSE(holds("WANDB_API_KEY"));
}

TEST_F(JournalFile, PruneKeepsTheLatestEndsAndAllThatLives) {
    auto journal = opened();
    for (int n = 1; n <= 6; ++n) {
        const auto id = "a-" + std::to_string(n);
        const auto live = sample(id, n, State::running);
        ASSERT_TRUE(journal.save(live) && journal.begin(effect(id, "word" + std::to_string(n))));
        ASSERT_TRUE(journal.end(*journal.begin(effect(id, "release")), "done", 2));
        if (n != 2) {
            ASSERT_TRUE(journal.save(sample(id, n, State::done)));
        }
    }
    ASSERT_TRUE(journal.prune(2));
    const auto jobs = journal.load(100);
    ASSERT_TRUE(jobs);
    std::vector<std::string> ids;
    for (const auto &job : *jobs)
        ids.push_back(job.id);
    EXPECT_EQ(ids, (std::vector<std::string>{"a-2", "a-5", "a-6"}));
    EXPECT_EQ(verbs(*journal.unfinished()), std::vector<std::string>{"word2"});
    EXPECT_EQ(ask("SELECT count(*) FROM effects"), "4");
    EXPECT_EQ(*journal.next_sequence(), 1) << "numbers have nothing to do with it";
}

TEST_F(JournalFile, DoesNotGrowForEver) {
    auto journal = opened();
    std::uintmax_t early = 0;
    for (int n = 1; n <= 2000; ++n) {
        const auto id = "a-" + std::to_string(n);
        auto job = sample(id, n, State::planned);
        ASSERT_TRUE(journal.save(job));
        ASSERT_TRUE(journal.keep_request(id, std::string(5000, 'x')));
        const auto begun = journal.begin(effect(id, "submit"));
        ASSERT_TRUE(begun && journal.end(*begun, "done", 2));
        job.state = State::done;
        ASSERT_TRUE(journal.save(job));
        if (n % 20 == 0) {
            ASSERT_TRUE(journal.prune(50));
        }
        if (n == 200) early = size();
    }
    EXPECT_EQ(journal.load(2000)->size(), 50u);
    EXPECT_LE(size(), early + early / 4);
}

} // namespace
} // namespace spider::broker
