// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/waiting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace spider::coalloc {
namespace {

// Slurm's reasons for which a job would not start however free its site is.
constexpr std::array<std::string_view, 3> home_reasons{"BeginTime", "Dependency", "DependencyNeverSatisfied"};

bool released(const PartRecord &part) {
    return part.released && !part.giving_back &&
           (part.state == PartState::pending || part.state == PartState::running);
}

// When the last of the released parts is expected to run; 0: one has no estimate.
Seconds expected_by_all(const Job &job) {
    Seconds last = 0;
    for (const auto &part : job.parts) {
        if (!released(part) || part.state == PartState::running) continue;
        if (part.expected_start == 0) return 0;
        last = std::max(last, part.expected_start);
    }
    return last;
}

// In [0, 1), the same for the same job and turn: two jobs that gave way together come back apart.
double chance(const Job &job) {
    std::uint64_t hash = 1469598103934665603u; // FNV-1a
    for (const char c : job.id + "/" + std::to_string(job.turns))
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash ^= hash >> 33; // its low bits alone depend on the last characters
    return static_cast<double>((hash * 0x9e3779b97f4a7c15u) >> 11) / 9007199254740992.0;
}

Seconds doubled(Seconds first, int times, Seconds most) {
    return std::min(first * std::exp2(std::min(times, 30)), most);
}

} // namespace

bool idles(const PartRecord &part) {
    return part.state == PartState::running && !part.word_given && !part.giving_back;
}

bool home_waits(const Job &job) {
    const auto &home = job.parts.front();
    if (job.user_hold) return true;
    return home.state == PartState::pending &&
           std::find(home_reasons.begin(), home_reasons.end(), home.waits_for) != home_reasons.end();
}

std::string home_words(const Job &job) {
    const auto &home = job.parts.front();
    return job.user_hold ? "it is held; scontrol release " + std::to_string(home.job) + " frees every part"
                         : "Slurm says " + home.waits_for;
}

bool due(const Job &job, std::size_t index, const Policy &policy, const Outlook &outlook) {
    const auto &part = job.parts[index];
    const auto &home = job.parts.front();
    if (part.state != PartState::held || job.user_hold || part.waits_for == "JobHeldAdmin") return false;
    const auto rests = [&](const auto &one) {
        return one.back_at > 0 && outlook.now < one.back_at + policy.rest;
    };
    if (rests(part)) return false;
    if (index > 0 && (job.home_first || home_waits(job)))
        return home.state == PartState::running && !home.giving_back;
    const auto leads = [](const auto &one) { return released(one); };
    const auto runs = [](const auto &one) { return !released(one) || one.state == PartState::running; };
    const bool rested = outlook.now >= job.not_before;
    if (std::none_of(job.parts.begin(), job.parts.end(), leads)) {
        const auto free = [&](std::size_t i) { return i < outlook.room.size() && outlook.room[i]; };
        bool all = true;
        for (std::size_t i = 0; i < job.parts.size(); ++i)
            all = all && free(i);
        const bool together = std::none_of(job.parts.begin(), job.parts.end(), rests);
        return rested && together && (all || !free(index) || (index == 0 && job.home_first));
    }
    if (std::all_of(job.parts.begin(), job.parts.end(), runs)) return true; // somebody idles: no pause
    const auto expected = expected_by_all(job);
    return rested && expected > 0 && outlook.now >= expected - policy.margin;
}

bool lost(const Job &job, const PartRecord &part, const Policy &policy, Seconds now) {
    return job.again && job.spec.on_failure == OnFailure::replan && part.site != job.parts.front().site &&
           part.unseen_since > 0 && now - part.unseen_since > policy.lost_after;
}

Seconds free_since(const Job &job, const Policy &policy) {
    Seconds last = 0;
    for (const auto &part : job.parts) {
        if (part.state == PartState::running) continue;
        const auto rested = part.back_at > 0 ? part.back_at + policy.rest : 0;
        last = std::max({last, part.released_at, rested});
    }
    return last;
}

std::string missing_parts(const Job &job) {
    for (const auto &part : job.parts)
        if (part.state != PartState::running)
            return "site " + part.site + ": job " + std::to_string(part.job) + " is " + part.slurm_state;
    return "all parts run";
}

Seconds pause_before_attempt(const Policy &policy, int attempt) {
    return doubled(policy.retry_delay, std::max(attempt - 2, 0), policy.backoff_most);
}

Seconds pause_before_turn(const Policy &policy, const Job &job) {
    const auto most = doubled(policy.backoff, job.turns - 1, policy.backoff_most);
    return most * (0.5 + chance(job) / 2);
}

} // namespace spider::coalloc
