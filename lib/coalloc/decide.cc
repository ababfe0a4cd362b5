// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/decide.h"

#include "coalloc/waiting.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

constexpr bool starting(State state) {
    return state == State::holding || state == State::releasing || state == State::rendezvous;
}

template <class Predicate>
bool every(const Job &job, Predicate predicate) {
    return std::all_of(job.parts.begin(), job.parts.end(), predicate);
}

std::string at_site(const PartRecord &part) {
    return "site " + part.site + ": job " + std::to_string(part.job) + " ";
}

std::string how_it_ended(const PartRecord &part) {
    // The statuses of launch/part_script.h, which ends such a part before its script.
    constexpr int plugin_missing = 78;
    if (part.state == PartState::unprepared && part.exit_status == plugin_missing)
        return at_site(part) + "never got the word: is the plugin installed on its compute nodes?";
    if (part.state == PartState::unprepared)
        return at_site(part) + "could not make its working directory or unpack what travels (status 73): see "
                               "its output there";
    const auto status = part.exit_status != 0 ? ", exit status " + std::to_string(part.exit_status) : "";
    if (part.state == PartState::failed) return at_site(part) + "ended as " + part.slurm_state + status;
    const auto words = at_site(part) + std::string(rule_of(part.state).words);
    if (part.state == PartState::cancelled || part.state == PartState::gone) return words;
    return words + " (" + part.slurm_state + ")";
}

// An end that somebody wanted explains the others; it may be seen later than theirs.
std::optional<Decision> ended_part(const Job &job) {
    std::optional<Decision> found;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &part = job.parts[i];
        if (!over(part.state) || part.state == PartState::completed) continue;
        const bool wanted = rule_of(part.state).wanted;
        if (wanted) return Decision{Event::cancel_asked, how_it_ended(part), i};
        if (!found) found = Decision{Event::part_failed, how_it_ended(part), i};
    }
    return found;
}

// A part that is through before all run has never had the word: nothing was trained.
std::optional<Decision> early_end(const Job &job) {
    for (std::size_t i = 0; i < job.parts.size(); ++i)
        if (job.parts[i].state == PartState::completed)
            return Decision{Event::part_failed, at_site(job.parts[i]) + "ended before all parts had started",
                            i};
    return std::nullopt;
}

std::optional<Decision> patience_ended(const Job &job, const Policy &policy, Seconds now) {
    const auto free = free_since(job, policy);
    for (const auto &part : job.parts)
        if (idles(part) && now - std::max(part.idle_since, free) > policy.patience)
            return Decision{Event::patience_ended, "site " + part.site + " gives its GPUs back after " +
                                                       std::to_string(static_cast<int>(policy.patience)) +
                                                       " s without the others: " + missing_parts(job)};
    return std::nullopt;
}

// Wound-wait: of two jobs that hold GPUs idle, the younger gives back what the older waits for. A ring of
// waiting jobs has a youngest one, so none lasts.
std::optional<Decision> gave_way(const Job &job, std::span<const Job *const> live) {
    for (const auto *older : live) {
        if (older->sequence >= job.sequence || !starting(older->state) ||
            !std::any_of(older->parts.begin(), older->parts.end(), idles))
            continue;
        for (const auto &wanted : older->parts) {
            if (wanted.state != PartState::pending) continue;
            for (const auto &mine : job.parts)
                if (idles(mine) && mine.site == wanted.site)
                    return Decision{Event::gave_way, "site " + mine.site + " gives its GPUs back for job " +
                                                         older->id + ", which is older and waits there"};
        }
    }
    return std::nullopt;
}

std::optional<Decision> home_held(const Job &job) {
    if (!home_waits(job)) return std::nullopt;
    const bool holding = job.state == State::holding; // there acts() holds again what has not started
    const bool others = std::any_of(job.parts.begin() + 1, job.parts.end(), [&](const auto &part) {
        return holding ? idles(part) : part.released && !part.giving_back;
    });
    if (!others) return std::nullopt;
    return Decision{Event::home_held, "the home part, job " + std::to_string(job.parts.front().job) +
                                          ", is not to start: " + home_words(job)};
}

std::optional<Decision> while_starting(const Job &job, std::span<const Job *const> live, const Policy &policy,
                                       const Outlook &outlook) {
    if (auto ended = ended_part(job)) return ended;
    if (auto ended = early_end(job)) return ended;
    if (auto held = home_held(job)) return held;
    if (job.state == State::releasing &&
        every(job, [](const auto &part) { return part.released && !part.giving_back; }))
        return Decision{Event::all_released, "every part may start"};
    if (job.state == State::rendezvous &&
        every(job, [](const auto &part) { return part.state == PartState::running && !part.giving_back; }))
        return Decision{Event::all_running, "every part runs"};
    if (auto impatient = patience_ended(job, policy, outlook.now)) return impatient;
    return gave_way(job, live);
}

std::optional<Decision> while_holding(const Job &job, const Policy &policy, const Outlook &outlook) {
    if (auto ended = ended_part(job)) return ended;
    if (auto ended = early_end(job)) return ended;
    if (auto held = home_held(job)) return held;
    for (std::size_t i = 0; i < job.parts.size(); ++i)
        if (due(job, i, policy, outlook))
            return Decision{Event::release_due, "site " + job.parts[i].site + " may start"};
    const bool all_free = every(job, [](const auto &part) { return part.released && !part.giving_back; });
    if (all_free && !home_waits(job)) return Decision{Event::release_due, "every part is free to start"};
    return patience_ended(job, policy, outlook.now);
}

std::optional<Decision> while_ending(const Job &job, const Policy &policy, Seconds now) {
    const auto through = [&](const PartRecord &part) {
        return part.state == PartState::unsubmitted || (over(part.state) && !part.lingers) ||
               lost(job, part, policy, now);
    };
    if (!every(job, through)) return std::nullopt;
    if (job.cancelled) return Decision{Event::gone_cancelled, job.reason};
    return Decision{job.again ? Event::gone_again : Event::gone_failed, job.reason};
}

} // namespace

std::optional<Decision> decide(const Job &job, std::span<const Job *const> live, const Policy &policy,
                               const Outlook &outlook) {
    switch (job.state) {
    case State::planned:
        if (outlook.now - job.entered > policy.plan_ttl)
            return Decision{Event::plan_expired, "sbatch submitted nothing"};
        return std::nullopt;
    case State::holding:
        return while_holding(job, policy, outlook);
    case State::releasing:
    case State::rendezvous:
        return while_starting(job, live, policy, outlook);
    case State::running:
        if (auto ended = ended_part(job)) return ended;
        if (every(job, [](const auto &part) { return part.state == PartState::completed; }))
            return Decision{Event::all_completed, "every part completed"};
        return std::nullopt;
    case State::ending:
        return while_ending(job, policy, outlook.now);
    case State::asked:   // the broker plans when plan_due()
    case State::placing: // the broker's submissions bring the next event
    case State::done:
    case State::failed:
    case State::cancelled:
        return std::nullopt;
    }
    return std::nullopt;
}

std::vector<Act> acts(const Job &job, const Policy &policy, const Outlook &outlook) {
    std::vector<Act> wanted;
    // At the rendezvous nothing is held but what its site held when it started it anew.
    const bool may_release = job.state == State::releasing || job.state == State::rendezvous;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &part = job.parts[i];
        if (part.job == 0) continue;
        if (starting(job.state) && part.giving_back && part.state == PartState::running)
            wanted.push_back({i, Verb::give_back});
        else if (may_release && due(job, i, policy, outlook))
            wanted.push_back({i, Verb::release});
        else if (job.state == State::holding && i > 0 && part.state == PartState::pending && home_waits(job))
            wanted.push_back({i, Verb::hold});
        else if (job.state == State::running && part.state == PartState::running && !part.word_given)
            wanted.push_back({i, Verb::word});
        else if (job.state == State::ending && (!over(part.state) || part.lingers))
            wanted.push_back({i, Verb::cancel});
    }
    return wanted;
}

} // namespace spider::coalloc
