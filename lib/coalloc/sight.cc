// SPDX-License-Identifier: GPL-3.0-or-later
// What the sites say, taken into the job.
#include "coalloc/decide.h"

#include "coalloc/waiting.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

bool waits(PartState state) { return state == PartState::held || state == PartState::pending; }

// A part that runs without the word idles: from when this host has seen it, so no site's clock counts.
void count_idle(Job &job, PartRecord &part, Seconds now) {
    const bool idles = part.state == PartState::running && !part.word_given;
    if (!idles) stop_idling(job, part, now);
    if (idles && part.idle_since == 0) part.idle_since = now;
}

// Whose hold it is shows against what the broker itself asked for.
void see_waiting(Job &job, std::size_t index, bool again, Seconds now) {
    auto &part = job.parts[index];
    const bool held = part.state == PartState::held;
    if (again) part.back_at = now;
    if (part.back_at > 0 && now < part.back_at + requeue_settles) {
        part.state = PartState::held;
        part.released = false;
        return;
    }
    if (index == 0 && held && part.released && !again) job.user_hold = true;
    if (index == 0 && !held && !part.released) job.user_hold = false;
    part.released = !held;
}

} // namespace

void stop_idling(Job &job, PartRecord &part, Seconds now) {
    if (part.idle_since > 0) job.idle_gpu_seconds += part.gpus * (now - part.idle_since);
    part.idle_since = 0;
}

const EndRule &rule_of(PartState end) {
    return *std::find_if(end_rules.begin(), end_rules.end(),
                         [&](const EndRule &rule) { return rule.end == end; });
}

double idle_gpu_seconds(const Job &job, Seconds now) {
    double sum = job.idle_gpu_seconds;
    for (const auto &part : job.parts)
        if (part.idle_since > 0) sum += part.gpus * std::max(now - part.idle_since, 0.0);
    return sum;
}

void see(Job &job, std::size_t index, const Sight &sight, Seconds now) {
    auto &part = job.parts[index];
    part.unseen_since = 0;
    if (over(part.state)) {
        if (over(sight.state) && sight.state != PartState::never) part.lingers = false;
        return;
    }
    const bool again = sight.restarts > part.restarts;
    if (again) { // so it has run meanwhile
        part.giving_back = false;
        if (index == 0) job.user_hold = false;
        stop_idling(job, part, now);
    }
    // A job in the middle of its requeue looks as if it still ran.
    const bool settles = again || (part.back_at > 0 && now < part.back_at + requeue_settles);
    const auto state = sight.completing && settles ? PartState::held : sight.state;
    part.restarts = sight.restarts;
    part.state = state;
    part.slurm_state = sight.slurm_state;
    part.waits_for = waits(state) ? sight.reason : "";
    part.exit_status = sight.exit_status;
    if (!sight.hosts.empty()) part.hosts = sight.hosts;
    part.expected_start =
        sight.state == PartState::pending && sight.start > 0 ? sight.start - part.clock_ahead : 0;
    // A batch step that could not be launched waits again without counting as a start.
    const bool anew = again || waits(state);
    if (anew && (part.word_given || job.state == State::running)) {
        part.lingers = !over(sight.state);
        part.state = PartState::requeued;
    } else if (waits(state)) {
        see_waiting(job, index, again, now);
    } else if (state == PartState::running) {
        part.released = true;
        if (index == 0) job.user_hold = false;
    }
    if (part.state == PartState::never) part.lingers = true;
    count_idle(job, part, now);
}

void see_gone(Job &job, std::size_t index, Seconds now) {
    auto &part = job.parts[index];
    part.unseen_since = 0;
    part.lingers = false;
    if (over(part.state)) return;
    part.state = PartState::gone;
    count_idle(job, part, now);
}

void see_nothing(Job &job, std::size_t index, const std::string &trouble, Seconds now) {
    auto &part = job.parts[index];
    if (part.unseen_since == 0) part.unseen_since = now;
    if (!over(part.state)) part.slurm_state = "UNKNOWN (" + trouble + ")";
}

void taken(Job &job, const Act &act, Seconds now) {
    auto &part = job.parts[act.part];
    switch (act.verb) {
    case Verb::release:
        part.released = true;
        part.released_at = now;
        if (part.state != PartState::held) return;
        part.state = PartState::pending;
        part.slurm_state = "PENDING";
        part.waits_for.clear();
        return;
    case Verb::hold:
        part.released = false;
        if (part.state == PartState::pending) part.state = PartState::held;
        return;
    case Verb::word:
        part.word_given = true;
        count_idle(job, part, now);
        return;
    case Verb::give_back: // shows when the part waits again
    case Verb::cancel:
        return;
    }
}

} // namespace spider::coalloc
