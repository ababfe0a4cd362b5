// SPDX-License-Identifier: GPL-3.0-or-later
// The steps of the table, with what they change in the job.
#include "coalloc/decide.h"

#include "coalloc/waiting.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

void remember(Job &job, const std::string &why) {
    job.history.push_back({job.entered, job.state, why});
    if (job.history.size() > longest_history)
        job.history.erase(job.history.begin() + longest_history / 4); // how it began stays
}

void leave_out(Job &job, const std::string &site) {
    if (std::find(job.left_out.begin(), job.left_out.end(), site) == job.left_out.end())
        job.left_out.push_back(site);
}

// Whether a further attempt may end better than the one that this part ended.
bool may_try_again(Job &job, const EndRule &rule, const std::string &site) {
    if (job.spec.on_failure == OnFailure::cancel || job.attempt >= job.spec.attempts) return false;
    const bool replans = job.spec.on_failure == OnFailure::replan;
    const bool home = site == job.parts.front().site; // every plan needs it
    if (replans && rule.elsewhere && !home) leave_out(job, site);
    return rule.again || (replans && rule.elsewhere && !home);
}

constexpr EndRule refused_again{PartState::failed, false, true, true, "was refused"};

void judge_end(Job &job, const Decision &decision) {
    if (decision.event == Event::cancel_asked) {
        job.cancelled = true;
        job.again = false;
        return;
    }
    const auto &part = job.parts[decision.part];
    if (decision.event == Event::placing_failed) // of the first attempt sbatch tells the user at once
        job.again = job.attempt > 1 && may_try_again(job, refused_again, part.site);
    else if (over(part.state) && part.state != PartState::completed)
        job.again = may_try_again(job, rule_of(part.state), part.site);
    else
        job.again = may_try_again(job, rule_of(PartState::failed), part.site);
}

void begin_turn(Job &job, const Policy &policy, Seconds now) {
    if (std::none_of(job.parts.begin(), job.parts.end(), idles)) return; // only holds are put on again
    ++job.turns;
    job.not_before = now + pause_before_turn(policy, job);
    for (auto &part : job.parts)
        if (idles(part)) part.giving_back = true;
}

// What is still at a silent site belongs to an attempt that is over; it is cancelled when the site answers.
void begin_attempt(Job &job) {
    for (auto &part : job.parts) {
        if (over(part.state) || part.state == PartState::unsubmitted) continue;
        part.state = PartState::left_behind;
        leave_out(job, part.site);
    }
    ++job.attempt;
    job.again = false;
    job.not_before = 0;
    job.home_first = job.user_hold = false; // what it waited for is over
    job.word.clear();
}

} // namespace

std::optional<Action> apply(Job &job, const Decision &decision, const Policy &policy, Seconds now) {
    const auto row = next(job.state, decision.event);
    if (!row) return std::nullopt;
    if (decision.event == Event::plan_dropped) job.cancelled = true;
    if (row->action == Action::cancel_parts || decision.event == Event::cancel_asked)
        judge_end(job, decision);
    if (row->action == Action::give_back) begin_turn(job, policy, now);
    if (decision.event == Event::gone_again) begin_attempt(job);
    if (final(row->to) || row->to == State::asked)
        for (auto &part : job.parts)
            stop_idling(job, part, now);
    job.state = row->to;
    job.entered = now;
    job.reason = decision.why;
    remember(job, decision.why);
    return row->action;
}

} // namespace spider::coalloc
