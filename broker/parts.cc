// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: what is done to parts at their sites, always as their owner. Every act may be repeated.
#include "broker/broker.h"

#include "broker/translate.h"
#include "util/comment.h"
#include "util/hostlist.h"
#include "util/log.h"

#include <algorithm>

namespace spider::broker {

using coalloc::Event;
using coalloc::PartState;
using coalloc::State;

namespace {

constexpr Seconds part_timeout = 6;
constexpr Seconds sweep_timeout = 10;

PartState state_of(const slurm::JobView &view) {
    switch (view.state) {
    case slurm::JobState::pending:
        return view.held ? PartState::held : PartState::pending;
    case slurm::JobState::running:
    case slurm::JobState::completing:
    case slurm::JobState::other:
        return PartState::running;
    case slurm::JobState::completed:
        return view.exit_code == 0 ? PartState::completed : PartState::failed;
    case slurm::JobState::cancelled:
        return PartState::cancelled;
    case slurm::JobState::failed:
    case slurm::JobState::timeout:
    case slurm::JobState::node_fail:
    case slurm::JobState::preempted:
        return PartState::failed;
    }
    return PartState::unknown;
}

std::string in_words(const slurm::JobView &view) {
    return view.state_text + (view.reason.empty() ? "" : " (" + view.reason + ")");
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

} // namespace

// One request of a kind at a time for each part: an answer that is late is not asked for again.
void Broker::ask_part(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                      std::function<void(Result<slurm::Reply>)> done) {
    const auto &part = job.parts[index];
    const auto key = job.id + "/" + part.site + "/" + verb;
    if (!asked_.insert(key).second) return;
    sites_.call(part.site, part.user, call, part_timeout,
                [this, key, done = std::move(done)](Result<slurm::Reply> reply) {
                    asked_.erase(key);
                    done(std::move(reply));
                });
}

void Broker::follow(Job &job) {
    if (job.state == State::planned || job.state == State::placing) return;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &part = job.parts[i];
        const auto *line = sites_.line(part.site);
        if (part.job == 0 || coalloc::over(part.state) || line == nullptr) continue;
        ask_part(job, i, "follow", line->api->job(part.job),
                 [this, id = job.id, i](Result<slurm::Reply> reply) { take_view(id, i, std::move(reply)); });
    }
}

void Broker::take_view(const std::string &id, std::size_t index, Result<slurm::Reply> reply) {
    auto *job = find(id);
    if (job == nullptr || coalloc::final(job->state)) return;
    auto &part = job->parts[index];
    const auto *line = sites_.line(part.site);
    if (line == nullptr || coalloc::over(part.state)) return;
    auto view = reply ? line->api->read_job(*reply) : Result<slurm::JobView>(std::move(reply).error());
    const auto before = part;
    if (view) {
        const auto now = state_of(*view);
        // It ran and waits again: requeued, its ranks are gone.
        const bool requeued = part.word_given && (now == PartState::pending || now == PartState::held);
        // Slurm looks at the nodes only when the hold is off, and then says so with priority 0: it will never
        // start.
        const bool hopeless = view->state == slurm::JobState::pending && view->reason == "BadConstraints";
        part.state = requeued || hopeless ? PartState::failed : now;
        part.slurm_state = requeued ? "REQUEUED" : in_words(*view);
        part.exit_status = view->exit_code;
        if (!view->nodes.empty()) part.hosts = view->nodes;
        if (requeued || hopeless)
            ask_part(*job, index, "cancel", line->api->cancel(part.job), [](Result<slurm::Reply>) {});
    } else if (view.error().code == Errc::not_found) {
        part.state = PartState::gone;
    } else {
        part.slurm_state = "UNKNOWN (" + view.error().what + ")";
    }
    if (part == before) return;
    [[maybe_unused]] const auto saved = save(*job);
    advance(*job);
}

void Broker::release(Job &job) {
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        auto *line = sites_.line(job.parts[i].site);
        if (job.parts[i].state != PartState::held || line == nullptr) continue;
        ask_part(job, i, "release", line->api->release(job.parts[i].job),
                 [this, id = job.id, i](Result<slurm::Reply> reply) {
                     auto *held = find(id);
                     if (held == nullptr || coalloc::final(held->state)) return;
                     auto &part = held->parts[i];
                     const auto *where = sites_.line(part.site);
                     if (!reply || where == nullptr) return; // tried again; patience ends it
                     if (auto done = where->api->read_update(*reply); !done) {
                         util::log_warning("job " + id + ": site " + part.site +
                                           ": release: " + done.error().what);
                         return;
                     }
                     if (part.state == PartState::held) part.state = PartState::pending;
                     advance(*held);
                 });
    }
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
    // Jobs that run at the same time get different ports.
    const auto ports = config_.port_high - config_.port_low + 1;
    return address + "/" + std::to_string(config_.port_low + job.sequence % ports);
}

void Broker::give_word(Job &job) {
    if (job.word.empty()) {
        auto word = word_for(job);
        if (!word) {
            step(job, Event::part_failed, word.error().what);
            return;
        }
        job.word = *word;
        if (!save(job)) return;
    }
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        auto *line = sites_.line(job.parts[i].site);
        if (job.parts[i].word_given || coalloc::over(job.parts[i].state) || line == nullptr) continue;
        ask_part(job, i, "word", line->api->set_comment(job.parts[i].job, comment_of(job)),
                 [this, id = job.id, i](Result<slurm::Reply> reply) {
                     auto *running = find(id);
                     const auto *where = running ? sites_.line(running->parts[i].site) : nullptr;
                     if (!reply || where == nullptr) return; // tried again
                     if (auto done = where->api->read_update(*reply); !done) {
                         util::log_warning("job " + id + ": site " + running->parts[i].site +
                                           ": word: " + done.error().what);
                         return;
                     }
                     running->parts[i].word_given = true;
                     [[maybe_unused]] const auto saved = save(*running);
                 });
    }
}

void Broker::cancel_parts(Job &job) {
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        auto *line = sites_.line(job.parts[i].site);
        if (job.parts[i].job == 0 || coalloc::over(job.parts[i].state) || line == nullptr) continue;
        ask_part(job, i, "cancel", line->api->cancel(job.parts[i].job),
                 [this, id = job.id, i](Result<slurm::Reply> reply) {
                     auto *ending = find(id);
                     const auto *where = ending ? sites_.line(ending->parts[i].site) : nullptr;
                     if (!reply || where == nullptr) return; // tried again
                     auto &part = ending->parts[i];
                     auto done = where->api->read_cancel(*reply);
                     if (!done)
                         util::log_warning("job " + id + ": site " + part.site +
                                           ": cancel: " + done.error().what);
                     else if (*done == slurm::Cancelled::already_gone && !coalloc::over(part.state))
                         part.state = PartState::gone;
                     if (!coalloc::final(ending->state)) advance(*ending);
                 });
    }
}

// Looks at every site for marked jobs that nobody wants any more: the home part of an sbatch that was killed,
// a part whose submission got no answer, a part of a job that has ended.
void Broker::sweep() {
    if (jobs_.empty() || clock_.elapsed() > busy_until_) return;
    for (const auto &[name, line] : sites_.lines()) {
        if (!asked_.insert("sweep/" + name).second) continue;
        sites_.call(name, line.config.token_user, line.api->jobs(), sweep_timeout,
                    [this, name = name](Result<slurm::Reply> reply) {
                        asked_.erase("sweep/" + name);
                        const auto *where = sites_.line(name);
                        if (!reply || where == nullptr) return;
                        auto jobs = where->api->read_jobs(*reply);
                        if (jobs && *jobs) sweep_site(name, **jobs);
                    });
    }
}

void Broker::sweep_site(const std::string &site, const std::vector<slurm::JobView> &jobs) {
    for (const auto &view : jobs) {
        const auto mark = util::parse_comment(view.comment);
        if (!mark || slurm::is_over(view.state) || mark->job.rfind(config_.home + "-", 0) != 0) continue;
        const auto *job = find(mark->job);
        if (job == nullptr) { // not ours to judge: another broker's, or older than our journal
            if (warned_.insert(site + "/" + std::to_string(view.id)).second)
                util::log_warning("site " + site + ": job " + std::to_string(view.id) + " is marked " +
                                  mark->job + ", which this broker does not know; left alone");
            continue;
        }
        const bool ours = std::any_of(job->parts.begin(), job->parts.end(), [&](const auto &part) {
            return part.site == site && part.job == view.id;
        });
        const bool early = job->state == State::planned || job->state == State::placing;
        if (early || (ours && !coalloc::final(job->state))) continue;
        util::log_info("job " + job->id + ": site " + site + ": job " + std::to_string(view.id) +
                       " is left over; cancelled");
        sites_.call(site, view.user, sites_.line(site)->api->cancel(view.id), part_timeout,
                    [](Result<slurm::Reply>) {});
    }
}

} // namespace spider::broker
