// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/database.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <sqlite3.h>
#include <sys/stat.h>

namespace spider::broker {
namespace {

// Milliseconds for which another process may hold the file: the broker does nothing else meanwhile. After a
// failure only the short one, until a statement works again.
constexpr int patience = 200;
constexpr int short_patience = 10;

struct Cure {
    int code;
    const char *words;
};
constexpr std::array cures{
    Cure{SQLITE_BUSY, "another process holds it: end that one (fuser names it)"},
    Cure{SQLITE_FULL, "make room on that disk"},
    Cure{SQLITE_READONLY, "file and folder must be writable for the user that spiderflowd runs as"},
    Cure{SQLITE_PERM, "file and folder must be writable for the user that spiderflowd runs as"},
    Cure{SQLITE_CANTOPEN, "its folder must be there, and writable for the user that spiderflowd runs as"},
    Cure{SQLITE_IOERR, "look at that disk, and at the limits of files (ulimit -f)"},
    Cure{SQLITE_CORRUPT,
         "put a backup in its place, or move it away (for the journal, then run spiderflowd --recover)"},
    Cure{SQLITE_NOTADB,
         "put a backup in its place, or move it away (for the journal, then run spiderflowd --recover)"},
};

struct Finalize {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

void bind(sqlite3_stmt *statement, int index, const Value &value) {
    if (const auto *whole = std::get_if<std::int64_t>(&value))
        sqlite3_bind_int64(statement, index, *whole);
    else if (const auto *real = std::get_if<double>(&value))
        sqlite3_bind_double(statement, index, *real);
    else if (const auto *text = std::get_if<std::string_view>(&value))
        sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
}

} // namespace

std::int64_t Row::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Row::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Row::text(int column) const {
    const auto *text = reinterpret_cast<const char *>(sqlite3_column_text(statement_, column));
    if (text == nullptr) return {};
    return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void Database::Close::operator()(sqlite3 *db) const { sqlite3_close_v2(db); }

Error Database::failed(const std::string &step) {
    auto what = what_ + " " + path_ + ": " + step + ": " + sqlite3_errmsg(db_.get());
    const int code = sqlite3_errcode(db_.get());
    const int number = sqlite3_system_errno(db_.get());
    if (code == SQLITE_CANTOPEN && number != 0) what += std::string(" (") + std::strerror(number) + ")";
    for (const auto &cure : cures)
        if (cure.code == code) what += std::string("; ") + cure.words;
    sqlite3_busy_timeout(db_.get(), short_patience);
    return {Errc::system, std::move(what)};
}

Result<Database> Database::open(const std::string &path, const std::string &what) {
    Database database;
    database.what_ = what;
    database.path_ = path;
    const auto mask = ::umask(077);
    sqlite3 *db = nullptr;
    const int opened =
        sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database.db_.reset(db);
    ::umask(mask);
    if (opened != SQLITE_OK) return database.failed("open");
    if (auto made = database.set_up(); !made) return std::move(made).error();
    return database;
}

Result<void> Database::set_up() {
    // SQLite gives what it puts beside the file the file's own mode. What a crash left may be older.
    for (const auto *beside : {"", "-wal", "-shm"}) {
        const auto file = path_ + beside;
        struct stat about {};
        if (::stat(file.c_str(), &about) != 0 || (about.st_mode & 077) == 0) continue;
        if (::chmod(file.c_str(), 0600) != 0)
            return Error{Errc::system, what_ + " " + file + ": readable by others, and chmod 0600 fails: " +
                                           std::strerror(errno)};
    }
    sqlite3_busy_timeout(db_.get(), patience);
    if (sqlite3_db_readonly(db_.get(), "main") == 1)
        return Error{Errc::system, what_ + " " + path_ + ": open: the file is read-only; " + cures[2].words};
    // The log is moved into the file at 1 MiB, and cut to that when it was longer for once.
    for (const auto *pragma :
         {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA secure_delete=ON",
          "PRAGMA temp_store=MEMORY", "PRAGMA wal_autocheckpoint=256", "PRAGMA journal_size_limit=1048576"})
        if (auto set = run("open", pragma); !set) return set;
    return {};
}

Result<void> Database::query(const std::string &step, const char *sql, const std::vector<Value> &values,
                             const std::function<bool(const Row &)> &take) {
    sqlite3_stmt *prepared = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql, -1, &prepared, nullptr) != SQLITE_OK) return failed(step);
    const Statement statement(prepared);
    for (std::size_t i = 0; i < values.size(); ++i)
        bind(prepared, static_cast<int>(i) + 1, values[i]);
    int got = SQLITE_ROW;
    while ((got = sqlite3_step(prepared)) == SQLITE_ROW && take(Row(prepared))) {
    }
    if (got != SQLITE_ROW && got != SQLITE_DONE) return failed(step);
    sqlite3_busy_timeout(db_.get(), patience);
    return {};
}

Result<void> Database::run(const std::string &step, const char *sql, const std::vector<Value> &values) {
    return query(step, sql, values, [](const Row &) { return true; });
}

Result<void> Database::all_or_nothing(const std::string &step, const std::function<Result<void>()> &work) {
    if (auto begun = run(step, "BEGIN IMMEDIATE"); !begun) return begun;
    auto done = work();
    if (done) done = run(step, "COMMIT");
    // SQLite may have taken all back by itself.
    if (!done && sqlite3_get_autocommit(db_.get()) == 0)
        sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    return done;
}

bool Database::empty_log() {
    sqlite3_busy_timeout(db_.get(), short_patience);
    const int done =
        sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
    if (done == SQLITE_OK) sqlite3_busy_timeout(db_.get(), patience);
    return done == SQLITE_OK;
}

std::int64_t Database::last_number() const { return sqlite3_last_insert_rowid(db_.get()); }
int Database::changed() const { return sqlite3_changes(db_.get()); }

} // namespace spider::broker
