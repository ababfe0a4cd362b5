// SPDX-License-Identifier: GPL-3.0-or-later
// Why a job waits, for its user.
#include "coalloc/decide.h"

#include "coalloc/waiting.h"
#include "util/text.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

std::string names(const Job &job, bool (*which)(const PartRecord &)) {
    std::vector<std::string> found;
    for (const auto &part : job.parts)
        if (which(part)) found.push_back(part.site);
    return util::join(found, ", ");
}

std::string expected(const PartRecord &part) {
    return part.expected_start > 0 ? ", start expected at " + util::local_time(part.expected_start) : "";
}

// The parts in the sites' queues, with what Slurm says of them.
std::string queued(const Job &job) {
    std::vector<std::string> found;
    for (const auto &part : job.parts)
        if (part.state == PartState::pending || part.unseen_since > 0)
            found.push_back("site " + part.site + " (job " + std::to_string(part.job) + " " +
                            part.slurm_state + expected(part) + ")");
    return found.empty() ? "" : "waiting for " + util::join(found, " and ");
}

void add(std::string &sentence, const std::string &more) {
    if (!more.empty()) sentence += (sentence.empty() ? "" : "; ") + more;
}

std::string while_starting(const Job &job, const Policy &policy, const Outlook &outlook) {
    if (home_waits(job))
        return "the home part, job " + std::to_string(job.parts.front().job) +
               ", is not to start yet, so the others wait: " + home_words(job);
    std::string sentence = queued(job);
    Seconds first = 0;
    for (const auto &part : job.parts)
        if (idles(part) && (first == 0 || part.idle_since < first)) first = part.idle_since;
    if (first > 0)
        add(sentence, "the GPUs of " + names(job, idles) + " are given back at " +
                          util::local_time(std::max(first, free_since(job, policy)) + policy.patience));
    const auto back = names(job, [](const PartRecord &part) { return part.giving_back; });
    if (!back.empty()) add(sentence, back + " gives its GPUs back");
    const auto held = names(job, [](const PartRecord &part) { return part.state == PartState::held; });
    const bool rests = !held.empty() && outlook.now < job.not_before;
    if (rests)
        add(sentence, held + " is held, no new try before " + util::local_time(job.not_before));
    else if (!held.empty())
        add(sentence, held + " is held until the others are about to start");
    return sentence;
}

std::string while_ending(const Job &job) {
    for (const auto &part : job.parts)
        if (part.unseen_since > 0 && !over(part.state))
            return "site " + part.site + " does not answer; job " + std::to_string(part.job) +
                   " is cancelled there when it does: " + job.reason;
    return "the parts are being cancelled: " + job.reason;
}

} // namespace

std::string waits_because(const Job &job, const Policy &policy, const Outlook &outlook) {
    switch (job.state) {
    case State::asked:
        return "attempt " + std::to_string(job.attempt) + " of " + std::to_string(job.spec.attempts) +
               " begins at " + util::local_time(job.entered + pause_before_attempt(policy, job.attempt)) +
               ": " + job.reason;
    case State::planned:
        return "waiting for sbatch to submit the home part";
    case State::placing:
        return "the parts are being submitted";
    case State::holding:
    case State::releasing:
    case State::rendezvous:
        return while_starting(job, policy, outlook);
    case State::ending:
        return while_ending(job);
    case State::running:
    case State::done:
    case State::failed:
    case State::cancelled:
        return "";
    }
    return "";
}

bool plan_due(const Job &job, const Policy &policy, Seconds now) {
    return job.state == State::asked && now >= job.entered + pause_before_attempt(policy, job.attempt);
}

} // namespace spider::coalloc
