// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/broker.h"

#include "util/log.h"

namespace spider::broker {

using coalloc::Action;
using coalloc::Event;
using coalloc::State;

namespace {

constexpr Seconds push_interval = 2; // an act that a site did not take is tried again
constexpr Seconds sweep_busy = 5;    // parts nobody wants any more are looked for
constexpr Seconds sweep_idle = 30;
constexpr Seconds busy_after_end = 120;
constexpr std::size_t ended_kept = 1000; // in memory; the journal keeps all

} // namespace

Broker::Broker(Config config, Journal journal, slurm::Http &http, const util::Clock &clock)
    : journal_(std::move(journal)), clock_(clock), sites_(http, clock) {
    reconfigure(std::move(config));
}

void Broker::reconfigure(Config config) {
    config_ = std::move(config);
    policy_.patience = config_.patience;
    policy_.plan_ttl = config_.plan_ttl;
    sites_.configure(config_);
}

Result<void> Broker::resume() {
    auto jobs = journal_.load(static_cast<int>(ended_kept));
    if (!jobs) return std::move(jobs).error();
    for (auto &job : *jobs) {
        const auto id = job.id;
        auto &held = jobs_.emplace(id, std::move(job)).first->second;
        if (coalloc::final(held.state)) continue;
        util::log_info("job " + id + ": taken up again in state " + std::string(coalloc::name(held.state)));
        // The script and the environment were in memory only: what was half placed is taken back.
        if (held.state == State::placing)
            step(held, Event::placing_failed, "the broker was restarted while the parts were being placed");
    }
    busy_until_ = clock_.elapsed() + busy_after_end;
    return {};
}

coalloc::Job *Broker::find(const std::string &id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
}

// Another user's job looks like no job at all.
Result<coalloc::Job *> Broker::own(const Caller &caller, const std::string &id) {
    auto *job = find(id);
    if (job == nullptr || (job->uid != caller.uid && !caller.is_operator))
        return Error{Errc::not_found, "no job " + id + " of yours"};
    return job;
}

Result<void> Broker::save(const Job &job) {
    auto saved = journal_.save(job);
    if (!saved) util::log_error(saved.error().what);
    return saved;
}

// The journal is written before the act, so that a broker that dies in between finds the job again and
// repeats the act.
bool Broker::step(Job &job, Event event, const std::string &why) {
    const auto row = coalloc::next(job.state, event);
    if (!row) return false;
    job.state = row->to;
    job.entered = clock_.now();
    job.reason = why;
    if (event == Event::cancel_asked || event == Event::plan_dropped) job.cancelled = true;
    job.history.push_back({job.entered, job.state, why});
    util::log_info("job " + job.id + ": " + std::string(coalloc::name(job.state)) + ": " + why);
    [[maybe_unused]] const auto saved = save(job); // said in the log; what runs is followed all the same
    if (coalloc::final(job.state)) busy_until_ = clock_.elapsed() + busy_after_end;
    act(job, row->action);
    return true;
}

void Broker::act(Job &job, Action action) {
    switch (action) {
    case Action::none:
        return;
    case Action::place_parts:
        return submit_parts(job);
    case Action::release_parts:
        return release(job);
    case Action::give_word:
        return give_word(job);
    case Action::cancel_parts:
        return cancel_parts(job);
    }
}

void Broker::advance(Job &job) {
    while (const auto decision = coalloc::decide(job, policy_, clock_.now()))
        if (!step(job, decision->event, decision->why)) return;
}

void Broker::tick() {
    sites_.tick();
    const auto now = clock_.elapsed();
    const bool follow_now = now >= follow_due_, push_now = now >= push_due_;
    if (follow_now) follow_due_ = now + config_.poll_jobs;
    if (push_now) push_due_ = now + push_interval;
    bool alive = false;
    for (auto &[id, job] : jobs_) {
        if (coalloc::final(job.state)) continue;
        alive = true;
        advance(job);
        if (push_now) {
            if (job.state == State::releasing) release(job);
            if (job.state == State::running) give_word(job);
            if (job.state == State::ending) cancel_parts(job);
        }
        if (follow_now) follow(job);
    }
    if (alive) busy_until_ = now + busy_after_end;
    if (now >= sweep_due_) {
        sweep_due_ = now + (now < busy_until_ ? sweep_busy : sweep_idle);
        sweep();
    }
    answer_placements();
    forget_old();
}

void Broker::forget_old() {
    std::size_t ended = 0;
    for (const auto &[id, job] : jobs_)
        ended += coalloc::final(job.state) ? 1 : 0;
    while (ended > ended_kept) {
        auto oldest = jobs_.end();
        for (auto at = jobs_.begin(); at != jobs_.end(); ++at)
            if (coalloc::final(at->second.state) &&
                (oldest == jobs_.end() || at->second.sequence < oldest->second.sequence))
                oldest = at;
        jobs_.erase(oldest);
        --ended;
    }
}

Result<Json> Broker::cancel(const Caller &caller, const std::string &id) {
    auto job = own(caller, id);
    if (!job) return std::move(job).error();
    if (!step(**job, Event::cancel_asked, "cancelled by " + caller.name) && coalloc::final((*job)->state))
        return Error{Errc::refused,
                     "job " + id + " has already ended: " + std::string(coalloc::name((*job)->state))};
    return show(caller, id);
}

Result<Json> Broker::drop(const Caller &caller, const std::string &id) {
    auto job = own(caller, id);
    if (!job) return std::move(job).error();
    step(**job, Event::plan_dropped, "sbatch submitted nothing");
    return Json::object();
}

std::string Broker::status_line() const {
    std::size_t up = 0, alive = 0;
    for (const auto &[name, line] : sites_.lines())
        up += line.trouble.empty() && line.seen_at > 0 ? 1 : 0;
    for (const auto &[id, job] : jobs_)
        alive += coalloc::final(job.state) ? 0 : 1;
    return std::to_string(up) + " of " + std::to_string(sites_.lines().size()) + " sites up, " +
           std::to_string(alive) + " federated jobs";
}

} // namespace spider::broker
