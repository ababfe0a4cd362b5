// SPDX-License-Identifier: GPL-3.0-or-later
// The journal when its file is locked, read-only, or on a full disk.
#include "unit/broker_sample.h"
#include "unit/journal_file.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

namespace spider::broker {
namespace {

using coalloc::State;

class Trouble : public JournalFile {
  protected:
    // Every write fails with these words, and nothing of it is there afterwards.
    static bool refuses(Journal &journal, const std::string &words) {
        const auto job = sample("a-1", 1, State::done);
        const auto saved = journal.save(sample("a-3", 3, State::running));
        const auto ended = journal.save(job);
        const auto number = journal.next_sequence();
        const auto begun = journal.begin({.job = "a-1", .site = "b", .verb = "word"});
        const auto kept = journal.keep_request("a-1", std::string(20'000, 'x'));
        const auto pruned = journal.prune(0);
        if (saved || ended || number || begun || kept || pruned) return false;
        const auto head = "journal " + journal.path() + ": ";
        bool good = true;
        for (const auto &[step, error] :
             std::vector<std::pair<std::string, Error>>{{"save a-3", saved.error()},
                                                        {"save a-1", ended.error()},
                                                        {"next number", number.error()},
                                                        {"word of a-1 at b", begun.error()},
                                                        {"keep the request of a-1", kept.error()},
                                                        {"prune", pruned.error()}}) {
            const auto expected = head + step + ": " + words;
            if (error.what != expected)
                std::fprintf(stderr, "got      %s\nexpected %s\n", error.what.c_str(), expected.c_str());
            good = good && error.what == expected && error.code == Errc::system;
        }
        return good;
    }
    static bool works(Journal &journal) {
        const auto jobs = journal.load(10);
        return jobs && jobs->size() == 3 && (*jobs)[1].state == State::running &&
               journal.unfinished()->empty() && journal.save(sample("a-1", 1, State::done)) &&
               *journal.next_sequence() == 2 && journal.begin({.job = "a-1", .site = "b", .verb = "word"}) &&
               journal.keep_request("a-2", std::string(20'000, 'x')) && journal.prune(0) &&
               journal.load(10)->size() == 1;
    }
    static bool begin_with_jobs(Journal &journal) {
        return journal.save(sample("a-0", 0, State::failed)) &&
               journal.save(sample("a-1", 1, State::running)) &&
               journal.save(sample("a-2", 2, State::running)) && *journal.next_sequence() == 1;
    }
};

TEST_F(Trouble, OfALockedFileIsOneLineAndSoonOver) {
    auto journal = opened();
    ASSERT_TRUE(begin_with_jobs(journal));
    {
        const Other other(path, "BEGIN EXCLUSIVE");
        const auto before = std::chrono::steady_clock::now();
        for (int i = 0; i < 10; ++i)
            EXPECT_TRUE(refuses(
                journal, "database is locked; another process holds it: end that one (fuser names it)"));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
        EXPECT_LT(took.count(), 10) << "60 calls; the broker does nothing else meanwhile";
        EXPECT_EQ(journal.load(10)->size(), 3u) << "reading goes on";
    }
    EXPECT_TRUE(works(journal));
}

TEST_F(Trouble, OfAFileThatMayNotGrowLeavesWhatWasThere) {
    std::signal(SIGXFSZ, SIG_IGN); // inherited
    EXPECT_EQ(in_child([&] {
                  auto journal = opened();
                  if (!begin_with_jobs(journal)) return 1;
                  const auto log = std::filesystem::file_size(path + "-wal");
                  ::rlimit limit{};
                  ::getrlimit(RLIMIT_FSIZE, &limit);
                  const auto before = limit.rlim_cur;
                  limit.rlim_cur = log;
                  ::setrlimit(RLIMIT_FSIZE, &limit);
                  if (!refuses(journal,
                               "disk I/O error; look at that disk, and at the limits of files (ulimit -f)"))
                      return 2;
                  limit.rlim_cur = before;
                  ::setrlimit(RLIMIT_FSIZE, &limit);
                  return works(journal) ? 0 : 3;
              }),
              0);
    std::signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(ask("PRAGMA integrity_check"), "ok");
}

// A tmpfs of 512 KiB in a mount namespace of its own, which goes with the child.
TEST_F(Trouble, OfAFullDiskLeavesWhatWasThere) {
    constexpr int skipped = 77;
    const int got = in_child([&] {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("sf", folder.c_str(), "tmpfs", 0, "size=512k,mode=0700") != 0)
            return skipped;
        {
            auto journal = opened();
            if (!begin_with_jobs(journal)) return 1;
            const auto filler = (folder / "filler").string();
            const util::Fd file(::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
            const std::string page(4096, 'x');
            while (::write(file.get(), page.data(), page.size()) > 0) {
            }
            if (!refuses(journal, "database or disk is full; make room on that disk")) return 2;
            ::unlink(filler.c_str());
            if (::ftruncate(file.get(), 0) != 0 || !works(journal)) return 3;
        }
        return ask("PRAGMA integrity_check") == "ok" ? 0 : 4;
    });
    if (got == skipped) GTEST_SKIP() << "no file system of one's own: needs root";
    EXPECT_EQ(got, 0);
}

TEST_F(Trouble, OfAFileThatMayNotBeWrittenIsSaidAtTheStart) {
    {
        auto journal = opened();
        ASSERT_TRUE(begin_with_jobs(journal));
    }
    constexpr ::uid_t nobody = 65534;
    if (::geteuid() == 0) { // who may write everything
        ASSERT_EQ(::chown(folder.c_str(), nobody, nobody), 0);
        ASSERT_EQ(::chown(path.c_str(), nobody, nobody), 0);
    }
    EXPECT_EQ(in_child([&] {
                  if (::geteuid() == 0 && ::setuid(nobody) != 0) return 1;
                  ::chmod(path.c_str(), 0400);
                  auto journal = Journal::open(path);
                  const auto expected = "journal " + path +
                                        ": open: the file is read-only; file and folder must be writable for "
                                        "the user that spiderflowd runs as";
                  if (journal || journal.error().what != expected) return 2;
                  ::chmod(path.c_str(), 0600);
                  auto again = Journal::open(path);
                  return again && works(*again) ? 0 : 3;
              }),
              0);
}

} // namespace
} // namespace spider::broker
