// SPDX-License-Identifier: GPL-3.0-or-later
// What must survive the broker: one row a federated job, and one a side effect at a site, written before it
// and closed after it. SQLite. Owned and used by the broker's thread. After an error all goes on: a later
// call works when the trouble is over.
#pragma once

#include "broker/database.h"
#include "coalloc/job.h"
#include "util/clock.h"
#include "util/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spider::broker {

// One side effect at a site.
struct Effect {
    std::int64_t number = 0;
    std::string job; // federated
    int attempt = 0;
    std::string site;
    std::string verb;  // "submit", "release", "hold", "give_back", "word", "cancel"
    Seconds begun = 0; // since the epoch
    bool operator==(const Effect &) const = default;
};

class Journal {
  public:
    // Makes the file (0600) when it is not there, and brings an older form up. A newer one is refused.
    static Result<Journal> open(const std::string &path);
    [[nodiscard]] const std::string &path() const { return database_.path(); }

    // The next number of a federated job; never given twice, also not after a crash.
    Result<std::int64_t> next_sequence();
    Result<std::int64_t> last_sequence();            // 0: none was given yet
    Result<void> raise_sequence(std::int64_t least); // the next number is above `least`

    // With the end of a job its request and its effects without an end go.
    Result<void> save(const coalloc::Job &job);
    // Every job that has not ended, and the `ended` latest that have, oldest first.
    Result<std::vector<coalloc::Job>> load(int ended);

    // Before the side effect is done; its number.
    Result<std::int64_t> begin(const Effect &effect);
    // `outcome`: "done", or the site's words. Nothing happens when the effect is gone with its job.
    Result<void> end(std::int64_t number, const std::string &outcome, Seconds at);
    Result<std::vector<Effect>> unfinished(); // under way when a broker died; oldest first

    // What a further attempt of a saved job needs. A secret of its user: overwritten when the job ends.
    Result<void> keep_request(const std::string &job, const std::string &body);
    Result<std::string> request(const std::string &job); // Errc::not_found: none is kept

    // Forgets the jobs that have ended but the `ended` latest, and old effects.
    Result<void> prune(int ended);

  private:
    explicit Journal(Database database) : database_(std::move(database)) {}
    void forget_secrets();

    Database database_;
    bool secrets_in_log_ = true; // of requests that are deleted; what died before may have left some
};

} // namespace spider::broker
