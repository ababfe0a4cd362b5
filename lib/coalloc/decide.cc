// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/job.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

// launch/part_script.h ended the part before its script.
constexpr int plugin_missing = 78;   // EX_CONFIG
constexpr int unpacking_failed = 73; // EX_CANTCREAT

template <class Predicate>
bool every(const Job &job, Predicate predicate) {
    return std::all_of(job.parts.begin(), job.parts.end(), predicate);
}

std::string how_it_ended(const PartRecord &part) {
    const auto where = "site " + part.site + ": job " + std::to_string(part.job) + " ";
    if (part.state == PartState::gone) return where + "is no longer known there";
    if (part.state == PartState::cancelled) return where + "was cancelled";
    if (part.exit_status == plugin_missing)
        return where + "never got the word: is the plugin installed on its compute nodes?";
    if (part.exit_status == unpacking_failed)
        return where + "could not make its working directory or unpack what travels (status 73): see its "
                       "output there";
    return where + "ended as " + part.slurm_state +
           (part.exit_status != 0 ? ", exit status " + std::to_string(part.exit_status) : std::string());
}

std::optional<Decision> ended_part(const Job &job) {
    for (const auto &part : job.parts) {
        if (part.state == PartState::cancelled) return Decision{Event::cancel_asked, how_it_ended(part)};
        if (part.state == PartState::failed || part.state == PartState::gone)
            return Decision{Event::part_failed, how_it_ended(part)};
    }
    return std::nullopt;
}

// A part that is through before all run has never had the word: nothing was trained.
std::optional<Decision> early_end(const Job &job) {
    for (const auto &part : job.parts)
        if (part.state == PartState::completed)
            return Decision{Event::part_failed, "site " + part.site + ": job " + std::to_string(part.job) +
                                                    " ended before all parts had started"};
    return std::nullopt;
}

std::string waiting_for(const Job &job) {
    for (const auto &part : job.parts)
        if (part.state != PartState::running)
            return "site " + part.site + ": job " + std::to_string(part.job) + " is " + part.slurm_state;
    return "all parts run";
}

// When the holds were taken off: patience counts from there through both states.
Seconds released_at(const Job &job) {
    for (auto line = job.history.rbegin(); line != job.history.rend(); ++line)
        if (line->state == State::releasing) return line->at;
    return job.entered;
}

std::optional<Decision> while_starting(const Job &job, const Policy &policy, Seconds now) {
    if (auto ended = ended_part(job)) return ended;
    if (auto ended = early_end(job)) return ended;
    if (job.state == State::releasing && every(job, [](const auto &p) {
            return p.state == PartState::pending || p.state == PartState::running;
        }))
        return Decision{Event::all_released, "every part may start"};
    if (job.state == State::rendezvous &&
        every(job, [](const auto &p) { return p.state == PartState::running; }))
        return Decision{Event::all_running, "every part runs"};
    if (now - released_at(job) > policy.patience)
        return Decision{Event::patience_ended, "not every part could start within " +
                                                   std::to_string(static_cast<int>(policy.patience)) +
                                                   " s: " + waiting_for(job)};
    return std::nullopt;
}

} // namespace

bool over(PartState state) {
    return state == PartState::completed || state == PartState::failed || state == PartState::cancelled ||
           state == PartState::gone;
}

std::optional<Decision> decide(const Job &job, const Policy &policy, Seconds now) {
    switch (job.state) {
    case State::planned:
        if (now - job.entered > policy.plan_ttl)
            return Decision{Event::plan_expired, "sbatch submitted nothing"};
        return std::nullopt;
    case State::holding:
        if (auto ended = ended_part(job)) return ended;
        return Decision{Event::hold_seen, "every part is placed"};
    case State::releasing:
    case State::rendezvous:
        return while_starting(job, policy, now);
    case State::running:
        if (auto ended = ended_part(job)) return ended;
        if (every(job, [](const auto &p) { return p.state == PartState::completed; }))
            return Decision{Event::all_completed, "every part completed"};
        return std::nullopt;
    case State::ending:
        if (!every(job, [](const auto &p) { return over(p.state) || p.state == PartState::unsubmitted; }))
            return std::nullopt;
        return Decision{job.cancelled ? Event::gone_cancelled : Event::gone_failed, job.reason};
    case State::asked:
    case State::placing: // the broker's place operation brings the next event
    case State::done:
    case State::failed:
    case State::cancelled:
        return std::nullopt;
    }
    return std::nullopt;
}

} // namespace spider::coalloc
