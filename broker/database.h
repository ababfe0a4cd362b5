// SPDX-License-Identifier: GPL-3.0-or-later
// One SQLite file and statements on it: WAL, synchronous FULL, what is deleted is overwritten. Every error
// names the file, the step, SQLite's words and the cure, and leaves the database usable. One thread.
#pragma once

#include "util/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace spider::broker {

using Value = std::variant<std::int64_t, double, std::string_view>;

// The row that a query is at; columns from 0.
class Row {
  public:
    explicit Row(sqlite3_stmt *statement) : statement_(statement) {}
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] double real(int column) const;
    [[nodiscard]] std::string text(int column) const;

  private:
    sqlite3_stmt *statement_;
};

class Database {
  public:
    // Makes the file when it is not there. Only its owner may read it, and what SQLite puts beside it. `what`
    // it is stands in every error.
    static Result<Database> open(const std::string &path, const std::string &what = "journal");

    [[nodiscard]] const std::string &path() const { return path_; }

    // `step` is for the error alone: "save s1-3".
    Result<void> run(const std::string &step, const char *sql, const std::vector<Value> &values = {});
    // Until `take` returns false.
    Result<void> query(const std::string &step, const char *sql, const std::vector<Value> &values,
                       const std::function<bool(const Row &)> &take);
    // One transaction: all that `work` does, or nothing of it.
    Result<void> all_or_nothing(const std::string &step, const std::function<Result<void>()> &work);
    // Moves the log into the file and empties it: what was deleted is then nowhere. False: not now, for
    // somebody reads.
    bool empty_log();

    [[nodiscard]] std::int64_t last_number() const; // of the latest INSERT
    [[nodiscard]] int changed() const;              // rows, by the latest statement

  private:
    struct Close {
        void operator()(sqlite3 *db) const;
    };
    Result<void> set_up();
    Error failed(const std::string &step);

    std::unique_ptr<sqlite3, Close> db_;
    std::string path_;
    std::string what_; // "journal"
};

} // namespace spider::broker
