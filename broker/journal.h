// SPDX-License-Identifier: GPL-3.0-or-later
// What must survive the broker: one row a federated job, written before each side effect. SQLite, WAL,
// synchronous FULL. Owned and used by the broker's thread.
#pragma once

#include "coalloc/job.h"
#include "util/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct sqlite3;

namespace spider::broker {

class Journal {
  public:
    // Makes the file (0600) when it is not there. A newer schema than ours is refused.
    static Result<Journal> open(const std::string &path);

    // The next number of a federated job; never given twice, also not after a crash.
    Result<std::int64_t> next_sequence();
    Result<void> save(const coalloc::Job &job);
    // Every job that has not ended, and the `ended` latest that have, oldest first.
    Result<std::vector<coalloc::Job>> load(int ended);

  private:
    struct Close {
        void operator()(sqlite3 *db) const;
    };
    Result<void> execute(const char *sql);
    Error failed(const std::string &step) const;

    std::unique_ptr<sqlite3, Close> db_;
    std::string path_;
};

} // namespace spider::broker
