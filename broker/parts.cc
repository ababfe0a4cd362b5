// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: what is done to parts at their sites, always as their owner. Every act may be repeated.
#include "broker/broker.h"

#include "broker/link_check.h"
#include "broker/translate.h"
#include "launch/part_script.h"
#include "probe/link_check.h"
#include "util/comment.h"
#include "util/hostlist.h"
#include "util/log.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>

namespace spider::broker {

using coalloc::Act;
using coalloc::PartState;
using coalloc::State;
using coalloc::Verb;

namespace {

constexpr Seconds part_timeout = 6;
constexpr Seconds push_interval = 2; // an act that does not show yet is asked for again, later each time
constexpr Seconds push_most = 30;
constexpr std::int64_t port_stride = 7919; // a prime that divides no usual range of ports

PartState failure_of(const slurm::JobView &view) {
    const bool unprepared =
        view.exit_code == launch::plugin_missing_status || view.exit_code == launch::unpacking_failed_status;
    return unprepared ? PartState::unprepared : PartState::failed;
}

PartState state_of(const slurm::JobView &view) {
    switch (view.state) {
    case slurm::JobState::pending:
        // Slurm looks at the nodes only when the hold is off, and then says so with priority 0.
        if (view.reason == "BadConstraints") return PartState::never;
        return view.held ? PartState::held : PartState::pending;
    case slurm::JobState::running:
    case slurm::JobState::completing:
    case slurm::JobState::other:
        return PartState::running;
    case slurm::JobState::completed:
        return view.exit_code == 0 ? PartState::completed : failure_of(view);
    case slurm::JobState::cancelled:
        return PartState::cancelled;
    case slurm::JobState::failed:
        return failure_of(view);
    case slurm::JobState::timeout:
        return PartState::timed_out;
    case slurm::JobState::node_fail:
        return PartState::node_failed;
    case slurm::JobState::preempted:
        return PartState::preempted;
    }
    return PartState::running;
}

coalloc::Sight sight_of(const slurm::JobView &view) {
    return {.state = state_of(view),
            .slurm_state = view.state_text + (view.reason.empty() ? "" : " (" + view.reason + ")"),
            .reason = view.reason,
            .exit_status = view.exit_code,
            .hosts = view.nodes,
            .restarts = view.restarts,
            .completing = view.state == slurm::JobState::completing,
            .start = static_cast<Seconds>(view.start_time)};
}

// Where rank 0 is: the node of the part that holds stage 0, member 0.
struct Place {
    std::size_t part = 0, node = 0;
};

std::optional<Place> place_of_rank_0(const Plan &plan) {
    for (std::size_t p = 0; p < plan.parts.size(); ++p)
        for (std::size_t n = 0; n < plan.parts[p].nodes.size(); ++n) {
            const auto &slots = plan.parts[p].nodes[n];
            if (std::find(slots.begin(), slots.end(), Slot{0, 0}) != slots.end()) return Place{p, n};
        }
    return std::nullopt;
}

std::string key_of(const coalloc::Job &job, std::size_t index, std::string_view verb) {
    return job.id + "/" + job.parts[index].site + "/" + std::string(verb);
}

} // namespace

// One request of a kind at a time for each part: an answer that is late is not asked for again.
void Broker::ask_part(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                      Seconds timeout, Took took) {
    const auto &part = job.parts[index];
    const auto key = key_of(job, index, verb);
    if (!asked_.insert(key).second) return;
    sites_.call(
        part.site, part.user, call, timeout,
        [this, key, id = job.id, attempt = job.attempt, took = std::move(took)](Result<slurm::Reply> reply) {
            asked_.erase(key);
            auto *still = find(id); // an old attempt's parts are the sweep's
            if (still != nullptr && still->attempt == attempt && !coalloc::final(still->state))
                took(*still, std::move(reply));
        });
}

// 0: it could not be written; what is asked may be repeated, so it is asked all the same.
std::int64_t Broker::begin_effect(const Effect &effect) {
    if (!journal_trouble_.empty()) return 0;
    auto number = journal_.begin(effect);
    if (!number) util::log_warning(number.error().what);
    return number ? *number : 0;
}

void Broker::end_effect(std::int64_t number, const Result<slurm::Reply> &reply) {
    if (number == 0) return;
    const auto outcome = reply ? "HTTP " + std::to_string(reply->status) : reply.error().what;
    if (auto ended = journal_.end(number, outcome, clock_.now()); !ended)
        util::log_warning(ended.error().what);
}

// The journal knows of it before the site does, and of the answer after.
void Broker::ask_effect(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                        Seconds timeout, Took took) {
    if (asked_.count(key_of(job, index, verb))) return;
    const auto number = begin_effect({0, job.id, job.attempt, job.parts[index].site, verb, clock_.now()});
    ask_part(job, index, verb, call, timeout,
             [this, number, took = std::move(took)](Job &still, Result<slurm::Reply> reply) {
                 end_effect(number, reply);
                 took(still, std::move(reply));
             });
}

void Broker::follow(Job &job) {
    if (job.state == State::asked || job.state == State::planned || job.state == State::placing) return;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &part = job.parts[i];
        const auto *line = sites_.line(part.site);
        const bool through = coalloc::over(part.state) && !part.lingers;
        if (part.job == 0 || through || line == nullptr) continue;
        ask_part(job, i, "follow", line->api->job(part.job), part_timeout,
                 [this, i, now = clock_.elapsed()](Job &followed, Result<slurm::Reply> reply) {
                     take_view(followed, i, now, std::move(reply));
                 });
    }
}

void Broker::take_view(Job &job, std::size_t index, Seconds asked_at, Result<slurm::Reply> reply) {
    auto &part = job.parts[index];
    const auto *line = sites_.line(part.site);
    if (line == nullptr) return;
    // What was seen before an act is no answer to it.
    for (const auto verb : {Verb::release, Verb::hold})
        if (const auto act = acted_.find(key_of(job, index, name(verb)));
            act != acted_.end() && act->second.at >= asked_at)
            return;
    auto view = reply ? line->api->read_job(*reply) : Result<slurm::JobView>(std::move(reply).error());
    auto before = part;
    const auto now = clock_.now();
    if (view) {
        coalloc::see(job, index, sight_of(*view), now);
        if (coalloc::over(part.state) && !coalloc::over(before.state)) take_seen(job, *view);
    } else if (view.error().code == Errc::not_found)
        coalloc::see_gone(job, index, now);
    else
        coalloc::see_nothing(job, index, view.error().what, now);
    before.expected_start = part.expected_start; // moves with every look
    if (part == before) return;
    save(job);
    advance(job);
}

slurm::Call Broker::call_for(const Job &job, const Act &act, const slurm::Api &api) const {
    const auto &part = job.parts[act.part];
    switch (act.verb) {
    case Verb::release: // after a requeue Slurm would wait two minutes
        return api.update(
            part.job, {.comment = comment_of(job, act.part), .hold = false, .begin_now = part.restarts > 0});
    case Verb::hold:
        return api.update(part.job, {.comment = std::nullopt, .hold = true, .begin_now = false});
    case Verb::give_back:
        return api.update(
            part.job, {.comment = comment_of(job, act.part, true), .hold = std::nullopt, .begin_now = false});
    case Verb::word:
        return api.update(part.job,
                          {.comment = comment_of(job, act.part), .hold = std::nullopt, .begin_now = false});
    case Verb::cancel:
        return api.cancel(part.job);
    }
    return {};
}

void Broker::perform(Job &job) {
    if (job.state == State::running && job.word.empty()) {
        if (!knows_master(job)) return; // after a restart: the next poll brings it
        auto word = word_for(job);
        if (!word) {
            step(job, {coalloc::Event::part_failed, word.error().what, 0});
            return;
        }
        job.word = *word;
        save(job);
    }
    const auto state = job.state;
    for (const auto &act : coalloc::acts(job, policy_, outlook(job))) {
        if (job.state != state) return; // an answer came at once, and what is wanted has changed
        perform(job, act);
    }
}

void Broker::perform(Job &job, const Act &act) {
    const auto *line = sites_.line(job.parts[act.part].site);
    const std::string verb(name(act.verb));
    const auto acted = acted_.find(key_of(job, act.part, verb));
    if (acted != acted_.end() && clock_.elapsed() < acted->second.at + acted->second.pause) return;
    if (line == nullptr) return;
    ask_effect(
        job, act.part, verb, call_for(job, act, *line->api), part_timeout,
        [this, act](Job &asked, Result<slurm::Reply> reply) { take_answer(asked, act, std::move(reply)); });
}

void Broker::take_answer(Job &job, const Act &act, Result<slurm::Reply> reply) {
    const auto &part = job.parts[act.part];
    const auto *line = sites_.line(part.site);
    if (line == nullptr) return;
    auto &acted = acted_[key_of(job, act.part, name(act.verb))];
    const bool repeated = clock_.elapsed() - acted.at < 2 * push_most;
    acted.pause = repeated ? std::min(acted.pause * 2, push_most) : push_interval;
    acted.at = clock_.elapsed();
    if (!reply) return; // follow() tells that the site is silent
    Result<void> done;
    bool gone = false;
    if (act.verb == Verb::cancel) {
        auto cancelled = line->api->read_cancel(*reply);
        gone = cancelled && *cancelled == slurm::Cancelled::already_gone;
        if (!cancelled) done = std::move(cancelled).error();
    } else {
        done = line->api->read_update(*reply);
    }
    if (!done) {
        util::log_warning("job " + job.id + ": site " + part.site + ": " + std::string(name(act.verb)) +
                          ": " + done.error().what);
        return;
    }
    if (gone)
        coalloc::see_gone(job, act.part, clock_.now());
    else
        coalloc::taken(job, act, clock_.now());
    save(job);
    advance(job);
}

// The addresses of its site's nodes have been read.
bool Broker::knows_master(const Job &job) const {
    const auto place = place_of_rank_0(job.plan);
    const auto line = place ? sites_.lines().find(job.parts[place->part].site) : sites_.lines().end();
    return line == sites_.lines().end() || line->second.seen_at > 0 ||
           line->second.config.state == SiteState::inactive;
}

Result<std::string> Broker::word_for(const Job &job) {
    const auto place = place_of_rank_0(job.plan);
    if (!place) return Error{Errc::invalid, "the plan has no rank 0"};
    const auto &part = job.parts[place->part];
    auto hosts = util::expand_hostlist(part.hosts);
    if (!hosts) return std::move(hosts).error().within("site " + part.site);
    if (place->node >= hosts->size())
        return Error{Errc::protocol, "site " + part.site + ": job " + std::to_string(part.job) + " runs on " +
                                         std::to_string(hosts->size()) + " nodes, the plan has " +
                                         std::to_string(job.plan.parts[place->part].nodes.size())};
    auto address = (*hosts)[place->node];
    if (const auto *line = sites_.line(part.site)) address = address_of(line->config, line->nodes, address);
    // Jobs that run at the same time get different ports, and so do a job's attempts.
    const auto ports = config_.port_high - config_.port_low + 1;
    const auto number = job.sequence + (job.attempt - 1) * port_stride;
    return address + "/" + std::to_string(config_.port_low + number % ports) + first_nodes(job);
}

// "/s1@10.77.1.1,s2@10.78.1.1": where the parts look at their links from; empty when they do not.
std::string Broker::first_nodes(const Job &job) const {
    if (check_text(job).empty()) return {};
    std::vector<std::string> words;
    for (const auto &part : job.parts) {
        const auto hosts = util::expand_hostlist(part.hosts);
        if (!hosts || hosts->empty()) continue; // that part's links stay unchecked
        auto address = hosts->front();
        if (const auto found = sites_.lines().find(part.site); found != sites_.lines().end())
            address = address_of(found->second.config, found->second.nodes, address);
        words.push_back(part.site + "@" + address);
    }
    return "/" + util::join(words, ",");
}

// What the part saw of its links before it ended for them.
void Broker::take_seen(const Job &job, const slurm::JobView &view) {
    const auto mark = util::parse_comment(view.comment);
    if (!mark || mark->seen.empty() || mark->job != job.id || mark->attempt != job.attempt) return;
    const auto samples = probe::parse_seen(mark->seen, clock_.now());
    const auto taken = samples ? links_.take(*samples) : Result<void>(samples.error());
    if (!taken) util::log_warning("job " + job.id + ": what it saw of its links: " + taken.error().what);
}

} // namespace spider::broker
