// SPDX-License-Identifier: GPL-3.0-or-later
// A federated job in the middle of its life, for the tests of lib/coalloc: part i is job 10 + i at site
// s<i + 1>, with 4 GPUs; `now` is what their clock says.
#pragma once

#include "coalloc/decide.h"

#include <algorithm>

namespace spider::coalloc {

constexpr Seconds now = 100000;

inline bool at_its_site(PartState state) {
    return state != PartState::unsubmitted && state != PartState::submitting;
}

inline Job job_in(State state, const std::vector<PartState> &parts) {
    Job job;
    job.id = "s1-7";
    job.sequence = 7;
    job.state = state;
    job.entered = now;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        PartRecord part;
        part.site = "s" + std::to_string(i + 1);
        part.job = at_its_site(parts[i]) ? 10 + static_cast<int>(i) : 0;
        part.gpus = 4;
        part.state = parts[i];
        part.released = parts[i] == PartState::pending || parts[i] == PartState::running;
        part.idle_since = parts[i] == PartState::running && state != State::running ? now : 0;
        part.word_given = parts[i] == PartState::running && state == State::running;
        part.slurm_state = parts[i] == PartState::pending ? "PENDING (Resources)" : "RUNNING";
        job.parts.push_back(part);
    }
    return job;
}

// Every site has room, or those named by `room` do.
inline Outlook outlook_at(Seconds when, std::vector<bool> room = {true, true, true}) {
    return {std::move(room), when};
}

inline std::optional<Event> event_of(const Job &job, const Outlook &outlook = outlook_at(now),
                                     std::span<const Job *const> live = {}) {
    const auto decision = decide(job, live, Policy{}, outlook);
    return decision ? std::optional(decision->event) : std::nullopt;
}

// Takes steps until nothing is decided.
inline void settle(Job &job, const Outlook &outlook = outlook_at(now),
                   std::span<const Job *const> live = {}) {
    for (int steps = 0; steps < 20; ++steps) {
        const auto decision = decide(job, live, Policy{}, outlook);
        if (!decision) return;
        apply(job, *decision, Policy{}, outlook.now);
    }
}

// The parts to which this is done now.
inline std::vector<std::size_t> parts_for(const Job &job, Verb verb,
                                          const Outlook &outlook = outlook_at(now)) {
    std::vector<std::size_t> parts;
    for (const auto &act : acts(job, Policy{}, outlook))
        if (act.verb == verb) parts.push_back(act.part);
    return parts;
}

inline void do_all(Job &job, Verb verb, const Outlook &outlook = outlook_at(now)) {
    for (const auto part : parts_for(job, verb, outlook))
        taken(job, {part, verb}, outlook.now);
}

inline Sight sight_of(PartState state, const std::string &reason = "", int restarts = 0, Seconds start = 0) {
    Sight sight;
    sight.state = state;
    sight.reason = reason;
    sight.slurm_state = state == PartState::running ? "RUNNING" : "PENDING (" + reason + ")";
    sight.restarts = restarts;
    sight.start = start;
    return sight;
}

using Parts = std::vector<std::size_t>;

} // namespace spider::coalloc
