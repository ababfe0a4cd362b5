// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/journal.h"

#include <sqlite3.h>
#include <sys/stat.h>

namespace spider::broker {
namespace {

constexpr int schema_version = 1;

struct Finalize {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

Statement prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = nullptr;
    sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
    return Statement(statement);
}

void bind_text(const Statement &statement, int index, const std::string &text) {
    sqlite3_bind_text(statement.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

std::string column(const Statement &statement, int index) {
    const auto *text = reinterpret_cast<const char *>(sqlite3_column_text(statement.get(), index));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement.get(), index)));
}

int user_version(sqlite3 *db) {
    const auto statement = prepare(db, "PRAGMA user_version");
    return statement && sqlite3_step(statement.get()) == SQLITE_ROW ? sqlite3_column_int(statement.get(), 0)
                                                                    : -1;
}

} // namespace

void Journal::Close::operator()(sqlite3 *db) const { sqlite3_close_v2(db); }

Error Journal::failed(const std::string &step) const {
    return {Errc::system, "journal " + path_ + ": " + step + ": " + sqlite3_errmsg(db_.get())};
}

Result<void> Journal::execute(const char *sql) {
    if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return failed("write");
    return {};
}

Result<Journal> Journal::open(const std::string &path) {
    Journal journal;
    journal.path_ = path;
    const auto mask = ::umask(077);
    sqlite3 *db = nullptr;
    const int opened =
        sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    journal.db_.reset(db);
    ::umask(mask);
    if (opened != SQLITE_OK) return journal.failed("open");
    sqlite3_busy_timeout(db, 2000);
    const int version = user_version(db);
    if (version < 0) return journal.failed("read");
    if (version > schema_version)
        return Error{Errc::invalid, "journal " + path + ": written by a newer spiderflowd (schema " +
                                        std::to_string(version) +
                                        "); install that version or move the file away"};
    if (auto set = journal.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"); !set)
        return std::move(set).error();
    // AUTOINCREMENT: a number is not used again even when its row is gone.
    if (auto made =
            journal.execute("BEGIN IMMEDIATE;"
                            "CREATE TABLE IF NOT EXISTS numbers(n INTEGER PRIMARY KEY AUTOINCREMENT);"
                            "CREATE TABLE IF NOT EXISTS jobs(id TEXT PRIMARY KEY, sequence INTEGER NOT NULL,"
                            " ended INTEGER NOT NULL, record TEXT NOT NULL);"
                            "PRAGMA user_version=1; COMMIT;");
        !made)
        return std::move(made).error();
    return journal;
}

Result<std::int64_t> Journal::next_sequence() {
    if (auto added = execute("INSERT INTO numbers DEFAULT VALUES"); !added) return std::move(added).error();
    const auto number = sqlite3_last_insert_rowid(db_.get());
    if (auto cleared = execute("DELETE FROM numbers"); !cleared) return std::move(cleared).error();
    return static_cast<std::int64_t>(number);
}

Result<void> Journal::save(const coalloc::Job &job) {
    const auto statement =
        prepare(db_.get(), "INSERT INTO jobs(id, sequence, ended, record) VALUES(?1, ?2, ?3, ?4) "
                           "ON CONFLICT(id) DO UPDATE SET ended=excluded.ended, record=excluded.record");
    if (!statement) return failed("save " + job.id);
    bind_text(statement, 1, job.id);
    sqlite3_bind_int64(statement.get(), 2, job.sequence);
    sqlite3_bind_int(statement.get(), 3, coalloc::final(job.state) ? 1 : 0);
    bind_text(statement, 4, model::print_json(coalloc::to_json(job)));
    if (sqlite3_step(statement.get()) != SQLITE_DONE) return failed("save " + job.id);
    return {};
}

Result<std::vector<coalloc::Job>> Journal::load(int ended) {
    const auto statement =
        prepare(db_.get(), "SELECT id, record FROM jobs WHERE ended=0 OR sequence IN (SELECT sequence FROM "
                           "jobs WHERE ended=1 ORDER BY sequence DESC LIMIT ?1) ORDER BY sequence");
    if (!statement) return failed("load");
    sqlite3_bind_int(statement.get(), 1, ended);
    std::vector<coalloc::Job> jobs;
    for (;;) {
        const int got = sqlite3_step(statement.get());
        if (got == SQLITE_DONE) return jobs;
        if (got != SQLITE_ROW) return failed("load");
        auto json = model::parse_json(column(statement, 1));
        auto job = json ? coalloc::job_from_json(*json) : Result<coalloc::Job>(std::move(json).error());
        if (!job) return std::move(job).error().within("journal " + path_ + ": job " + column(statement, 0));
        jobs.push_back(std::move(*job));
    }
}

} // namespace spider::broker
