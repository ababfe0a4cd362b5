// SPDX-License-Identifier: GPL-3.0-or-later
// Who waits for whom among a job's parts. Pure; for the sources of this room.
#pragma once

#include "coalloc/decide.h"

namespace spider::coalloc {

bool idles(const PartRecord &part); // it runs without the word, and is to go on doing so
void stop_idling(Job &job, PartRecord &part, Seconds now); // what it has idled so far is counted

// The home part is not to start, by its user's or an admin's word: so no other part may.
bool home_waits(const Job &job);
std::string home_words(const Job &job); // why

// Whether the hold of this part may be taken off now: first what has the longest wait before it, the others
// when that one runs, or `margin` before its site expects it to start.
bool due(const Job &job, std::size_t part, const Policy &policy, const Outlook &outlook);

// It cannot be cancelled because its site is silent, and the next attempt does not need that site.
bool lost(const Job &job, const PartRecord &part, const Policy &policy, Seconds now);

// When the last part that does not run was free to start: a rest is no fault of its site.
Seconds free_since(const Job &job, const Policy &policy);

// "site s2: job 11 is PENDING (Resources)", of the first part that does not run.
std::string missing_parts(const Job &job);

// When the pause before a further attempt, or turn, is over.
Seconds pause_before_attempt(const Policy &policy, int attempt);
Seconds pause_before_turn(const Policy &policy, const Job &job);

} // namespace spider::coalloc
