// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker does in the world of the model check: the functions of lib/coalloc on jobs made of a
// world's bytes.
#include "unit/coalloc_world.h"

#include <algorithm>

namespace spider::coalloc {
namespace {

std::string site_name(Byte site) { return "s" + std::to_string(site + 1); }

Seconds since(Timer timer, Seconds limit) {
    if (timer == Timer::off) return 0;
    return timer == Timer::young ? model_now : model_now - limit - 1;
}
Timer timer_of(Seconds since, Seconds limit) {
    if (since == 0) return Timer::off;
    return model_now - since > limit ? Timer::over : Timer::young;
}

const Policy plain;

PartRecord record_of(const Seen &seen) {
    PartRecord part;
    part.site = site_name(seen.site);
    part.job = seen.known ? 11 : 0;
    part.gpus = 1;
    part.state = seen.state;
    part.lingers = seen.lingers;
    part.released = seen.released;
    part.giving_back = seen.giving_back;
    part.word_given = seen.word_given;
    part.waits_for = seen.begins ? "BeginTime" : "";
    part.expected_start = seen.near ? model_now + plain.margin / 2 : 0;
    part.idle_since = since(seen.idle, plain.patience);
    part.unseen_since = since(seen.unseen, plain.lost_after);
    return part;
}

Seen seen_of(const PartRecord &part, Byte site) {
    Seen seen;
    seen.site = site;
    seen.state = part.state;
    seen.known = part.job != 0;
    seen.lingers = part.lingers;
    seen.released = part.released;
    seen.giving_back = part.giving_back;
    seen.word_given = part.word_given;
    seen.begins = part.waits_for == "BeginTime";
    seen.near = part.expected_start > 0;
    seen.idle = timer_of(part.idle_since, plain.patience);
    seen.unseen = timer_of(part.unseen_since, plain.lost_after);
    return seen;
}

// What the step has changed in the job.
void keep(World &world, std::size_t index, const Job &job) {
    auto &kept = world.jobs[index];
    kept.state = job.state;
    kept.attempt = static_cast<Byte>(job.attempt);
    kept.cancelled = job.cancelled;
    kept.user_hold = job.user_hold;
    kept.again = job.again;
    kept.paused = job.not_before > model_now;
    kept.waited = job.state == State::asked && job.entered < model_now;
    kept.left_out = 0;
    for (Byte site = 0; site < most_sites; ++site)
        if (std::count(job.left_out.begin(), job.left_out.end(), site_name(site)) > 0)
            kept.left_out |= static_cast<Byte>(1 << site);
    for (std::size_t i = 0; i < kept.size; ++i)
        kept.parts[i] = seen_of(job.parts[i], kept.parts[i].site);
}

Outlook outlook_of(const Rules &rules, const World &world, std::size_t index) {
    Outlook outlook{{}, model_now};
    const auto &job = world.jobs[index];
    for (std::size_t i = 0; i < job.size; ++i) {
        const auto site = job.parts[i].site;
        int busy = world.local[site] >= Local::last;
        for (const auto &attempts : world.there)
            for (const auto &sites : attempts)
                busy += sites[site].state == There::running;
        outlook.room.push_back(!world.silent[site] && busy < rules.capacity[site]);
    }
    return outlook;
}

PartState shown(const Actual &actual) {
    switch (actual.state) {
    case There::held:
        return PartState::held;
    case There::pending:
        return PartState::pending;
    case There::never:
        return PartState::never;
    case There::running:
        return PartState::running;
    case There::completed:
        return PartState::completed;
    case There::failed:
        return PartState::failed;
    default:
        return PartState::cancelled;
    }
}

Actual &actual_of(World &world, std::size_t index, std::size_t part) {
    const auto &job = world.jobs[index];
    return world.there[index][job.attempt - 1u][job.parts[part].site];
}

// A further attempt takes the sites that are not left out; two of them at least.
void plan_again(const Rules &rules, World &world, std::size_t index, Job &job) {
    std::vector<Byte> sites;
    for (const auto site : rules.sites[index])
        if ((world.jobs[index].left_out >> site & 1) == 0) sites.push_back(site);
    const bool enough = sites.size() >= 2;
    apply(job, {enough ? Event::planned_again : Event::no_plan, ""}, plain, model_now);
    keep(world, index, job);
    if (!enough) return;
    auto &kept = world.jobs[index];
    kept.size = static_cast<Byte>(sites.size());
    kept.parts = {};
    for (std::size_t i = 0; i < sites.size(); ++i)
        kept.parts[i].site = sites[i];
}

// Whether the site took it.
bool effect(World &world, std::size_t index, const Act &act) {
    auto &actual = actual_of(world, index, act.part);
    if (!live(actual.state)) return false;
    const auto note = [&](Note text) {
        if (actual.ahead == 0) actual.note = text; // else it is meant for a run that is over
    };
    switch (act.verb) {
    case Verb::release:
        if (actual.state == There::held) actual.state = There::pending;
        actual.user_held = 0;
        return true;
    case Verb::hold:
        if (actual.state == There::running) return false;
        if (actual.state == There::pending) actual.state = There::held;
        return true;
    case Verb::give_back:
        note(Note::back);
        return true;
    case Verb::word:
        note(Note::go);
        return true;
    case Verb::cancel:
        actual = {.state = There::cancelled};
        return true;
    }
    return false;
}

} // namespace

Policy policy_of(const Rules &rules) {
    Policy policy;
    if (rules.no_patience) policy.patience = 1e9;
    return policy;
}

Job job_of(const Rules &rules, const World &world, std::size_t index) {
    const auto &kept = world.jobs[index];
    Job job;
    job.sequence = static_cast<int>(index) + 1;
    job.id = "s1-" + std::to_string(job.sequence);
    job.state = kept.state;
    job.cancelled = kept.cancelled;
    job.spec.on_failure = rules.on_failure;
    job.spec.attempts = most_attempts;
    job.home_first = rules.begin && index == 0;
    job.user_hold = kept.user_hold;
    job.attempt = kept.attempt;
    job.again = kept.again;
    job.turns = 1;
    job.not_before = kept.paused ? model_now + 1 : 0;
    job.entered = kept.waited ? 0 : model_now;
    for (Byte site = 0; site < most_sites; ++site)
        if (kept.left_out >> site & 1) job.left_out.push_back(site_name(site));
    for (std::size_t i = 0; i < kept.size; ++i)
        job.parts.push_back(record_of(kept.parts[i]));
    return job;
}

void look(const Rules &rules, World &world, std::size_t index, std::size_t part, bool near) {
    auto job = job_of(rules, world, index);
    auto &record = job.parts[part];
    auto &actual = actual_of(world, index, part);
    if (world.silent[world.jobs[index].parts[part].site]) {
        see_nothing(job, part, "timeout", model_now);
    } else if (actual.state == There::none && record.job == 0) {
        record.state = PartState::unsubmitted; // looked for by its mark
        record.unseen_since = 0;
    } else if (actual.state == There::none) {
        see_gone(job, part, model_now);
    } else {
        record.job = 11;
        Sight sight;
        sight.state = shown(actual);
        sight.reason = actual.begins && actual.state == There::pending ? "BeginTime" : "";
        sight.restarts = rules.no_requeue_seen ? 0 : actual.ahead;
        sight.start = near ? model_now + plain.margin / 2 : 0;
        if (!over(record.state)) actual.ahead = 0;
        see(job, part, sight, model_now);
    }
    keep(world, index, job);
}

void advance(const Rules &rules, World &world, std::size_t index) {
    auto job = job_of(rules, world, index);
    const auto policy = policy_of(rules);
    if (job.state == State::asked) {
        if (plan_due(job, policy, model_now)) plan_again(rules, world, index, job);
        return;
    }
    std::optional<Decision> decision;
    if (job.state == State::placing) {
        const bool placed = std::none_of(job.parts.begin(), job.parts.end(), [](const auto &part) {
            return part.state == PartState::unsubmitted || part.state == PartState::submitting;
        });
        if (placed) decision = Decision{Event::all_held, ""};
    } else {
        std::array<Job, most_jobs> all;
        std::vector<const Job *> others;
        for (std::size_t i = 0; i < most_jobs && !rules.no_wound_wait; ++i) {
            if (i == index || final(world.jobs[i].state)) continue;
            all[i] = job_of(rules, world, i);
            others.push_back(&all[i]);
        }
        decision = decide(job, others, policy, outlook_of(rules, world, index));
    }
    if (!decision) return;
    apply(job, *decision, policy, model_now);
    keep(world, index, job);
}

void submit(const Rules &rules, World &world, std::size_t index, std::size_t part, bool answered) {
    auto &seen = world.jobs[index].parts[part];
    auto &actual = actual_of(world, index, part);
    if (!rules.no_mark) seen.state = PartState::submitting; // in the journal, before the request
    if (world.silent[seen.site]) return;
    if (live(actual.state)) world.broken = Broken::doubled;
    actual = {.state = There::held};
    actual.begins = rules.begin && index == 0 && part == 0;
    if (!answered) return;
    seen.state = PartState::held;
    seen.known = 1;
}

std::vector<Act> acts_of(const Rules &rules, const World &world, std::size_t index) {
    return acts(job_of(rules, world, index), policy_of(rules), outlook_of(rules, world, index));
}

void perform(const Rules &rules, World &world, std::size_t index, const Act &act, bool answered) {
    const auto &kept = world.jobs[index];
    if (world.silent[kept.parts[act.part].site]) return;
    if (act.verb == Verb::word)
        for (std::size_t i = 0; i < kept.size; ++i)
            if (kept.parts[i].state < PartState::running) world.broken = Broken::word_too_early;
    if (act.verb == Verb::release && kept.user_hold) world.broken = Broken::unheard;
    const bool took = effect(world, index, act);
    if (!took || !answered) return;
    auto job = job_of(rules, world, index);
    taken(job, act, model_now);
    keep(world, index, job);
}

void ask_cancel(const Rules &rules, World &world, std::size_t index) {
    auto job = job_of(rules, world, index);
    apply(job, {Event::cancel_asked, ""}, policy_of(rules), model_now);
    keep(world, index, job);
}

bool cancel_strays(World &world) {
    bool found = false;
    for (std::size_t j = 0; j < most_jobs; ++j)
        for (std::size_t attempt = 0; attempt + 1 < world.jobs[j].attempt; ++attempt)
            for (std::size_t site = 0; site < most_sites; ++site) {
                auto &actual = world.there[j][attempt][site];
                if (!live(actual.state) || world.silent[site]) continue;
                actual = {.state = There::cancelled};
                found = true;
            }
    return found;
}

} // namespace spider::coalloc
