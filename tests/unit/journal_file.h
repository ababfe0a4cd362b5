// SPDX-License-Identifier: GPL-3.0-or-later
// A journal in a fresh folder, and a look at its file past the journal.
#pragma once

#include "broker/journal.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spider::broker {

// Another process's connection, as far as SQLite's locks go.
class Other {
  public:
    Other(const std::string &path, const std::string &sql) {
        EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
        run(sql);
    }
    ~Other() { sqlite3_close(db_); }
    Other(const Other &) = delete;
    Other &operator=(const Other &) = delete;
    void run(const std::string &sql) {
        EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), &Other::keep, &first_, nullptr), SQLITE_OK)
            << sqlite3_errmsg(db_);
    }
    [[nodiscard]] const std::string &first() const { return first_; } // column of the last row

  private:
    static int keep(void *first, int, char **values, char **) {
        *static_cast<std::string *>(first) = values[0] == nullptr ? "" : values[0];
        return 0;
    }
    sqlite3 *db_ = nullptr;
    std::string first_;
};

class JournalFile : public testing::Test {
  protected:
    // In memory, if there is such a place: each write of a journal waits for the disk.
    std::filesystem::path folder = std::filesystem::path("/dev/shm") / ("sfj" + std::to_string(::getpid()));
    std::string path = (folder / "journal.db").string();

    JournalFile() {
        std::error_code trouble;
        if (std::filesystem::create_directory(folder, trouble); !trouble) return;
        folder = std::filesystem::path(testing::TempDir()) / folder.filename();
        path = (folder / "journal.db").string();
        std::filesystem::create_directories(folder);
    }
    ~JournalFile() override { std::filesystem::remove_all(folder); }

    [[nodiscard]] Journal opened() const {
        auto journal = Journal::open(path);
        if (!journal) throw std::runtime_error(journal.error().what); // the test fails with it
        return std::move(*journal);
    }
    void write(const std::string &text) const { std::ofstream(path) << text; }
    std::string ask(const std::string &sql) const { return Other(path, sql).first(); }

    // What spiderflowd wrote when the form of the journal had version 1.
    void make_version_1(const std::string &change = "SELECT 1") const {
        const auto dump = util::read_file(SF_TEST_DATA "/journal/version-1.sql");
        ASSERT_TRUE(dump) << dump.error().what;
        Other(path, *dump).run(change);
    }

    static unsigned mode_of(const std::string &file) {
        struct stat about {};
        return ::stat(file.c_str(), &about) == 0 ? about.st_mode & 0777 : 0;
    }
    // Whether the text stands in any file here.
    [[nodiscard]] bool holds(const std::string &text) const {
        bool found = false;
        for (const auto &entry : std::filesystem::directory_iterator(folder)) {
            const auto bytes = util::read_file(entry.path().string());
            found = found || (bytes && bytes->find(text) != std::string::npos);
        }
        return found;
    }
    [[nodiscard]] std::uintmax_t size() const {
        std::uintmax_t sum = 0;
        for (const auto &entry : std::filesystem::directory_iterator(folder))
            sum += entry.file_size();
        return sum;
    }
};

// Runs in a process of its own, whose limits and user may change; what it returns, or -1 when it died.
inline int in_child(const std::function<int()> &work) {
    const auto child = ::fork();
    if (child == 0) ::_exit(work());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace spider::broker
