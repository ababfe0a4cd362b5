// SPDX-License-Identifier: GPL-3.0-or-later
// What comes next for a federated job: pure functions of the job, the other jobs and the clock. The broker
// calls see() for each answer of a site, decide() and apply() until nothing is decided, and then asks the
// sites for acts().
#pragma once

#include "coalloc/job.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace spider::coalloc {

struct Policy {
    Seconds plan_ttl = 20;  // planned, and sbatch did not come back
    Seconds patience = 300; // that a part runs without the others
    Seconds margin = 15;    // a part is released so long before the others are expected to start
    Seconds backoff = 30;   // after the first turn; doubled with each, half of it at random
    Seconds backoff_most = 1800;
    Seconds rest = requeue_settles; // of a part that gave its GPUs back
    Seconds lost_after = 60;        // a site that is silent so long is left behind by a further attempt
    Seconds retry_delay = 10;       // before the second attempt; doubled with each
};

// What the job's parts find at their sites.
struct Outlook {
    std::vector<bool> room; // of each part: its nodes are free now
    Seconds now = 0;        // since the epoch
};

struct Decision {
    Event event = Event::no_plan;
    std::string why;
    std::size_t part = 0; // part_failed: which one ended
};

enum class Verb { release, hold, give_back, word, cancel };
struct Act {
    std::size_t part = 0;
    Verb verb = Verb::cancel;
    bool operator==(const Act &) const = default;
};

// The next event, or nothing: wait. `live`: all federated jobs that have not ended, this one may be among
// them.
std::optional<Decision> decide(const Job &job, std::span<const Job *const> live, const Policy &policy,
                               const Outlook &outlook);

// Takes the step of the table, with all that it changes in the job; nothing: it means nothing in this state.
std::optional<Action> apply(Job &job, const Decision &decision, const Policy &policy, Seconds now);

// What should now be asked of the sites. Every act may be repeated, and is until it shows.
std::vector<Act> acts(const Job &job, const Policy &policy, const Outlook &outlook);

// The answer to an act: the site took it.
void taken(Job &job, const Act &act, Seconds now);

// What a look at a part showed.
void see(Job &job, std::size_t part, const Sight &sight, Seconds now);
// The site knows no such job.
void see_gone(Job &job, std::size_t part, Seconds now);
// The site did not answer.
void see_nothing(Job &job, std::size_t part, const std::string &trouble, Seconds now);

// One sentence: why a job that has not ended does not run, and what comes next; "" when it runs.
std::string waits_because(const Job &job, const Policy &policy, const Outlook &outlook);

// The pause before a further attempt is over.
bool plan_due(const Job &job, const Policy &policy, Seconds now);

std::string_view name(Verb verb);

} // namespace spider::coalloc
