// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/broker.h"

#include "util/log.h"

#include <algorithm>
#include <array>

namespace spider::broker {

using coalloc::Action;
using coalloc::Decision;
using coalloc::Event;
using coalloc::State;

namespace {

constexpr Seconds sweep_busy = 5; // parts nobody wants any more are looked for
constexpr Seconds sweep_idle = 30;
constexpr Seconds busy_after_end = 120;
constexpr Seconds mend_interval = 5; // a journal that could not be written is tried again
constexpr std::array results{Event::all_running, Event::patience_ended, Event::gave_way,    Event::home_held,
                             Event::part_failed, Event::placing_failed, Event::cancel_asked};

} // namespace

Broker::Broker(Config config, Journal journal, Links links, slurm::Http &http, const util::Clock &clock)
    : journal_(std::move(journal)), clock_(clock), sites_(http, clock), links_(std::move(links)) {
    for (const auto state : {State::done, State::failed, State::cancelled})
        counted_.ended_total[std::string(coalloc::name(state))] = 0;
    for (const auto result : results)
        counted_.attempts_total[std::string(coalloc::name(result))] = 0;
    reconfigure(std::move(config));
}

// A site that has left the file stays until no live part can be there.
void Broker::reconfigure(Config config) {
    config_ = std::move(config);
    policy_ = {.plan_ttl = config_.plan_ttl,
               .patience = config_.patience,
               .margin = config_.margin,
               .backoff = config_.backoff,
               .backoff_most = config_.backoff_most,
               .lost_after = config_.lost_after,
               .retry_delay = config_.retry_delay};
    std::set<std::string> needed;
    for (const auto *job : live_)
        for (const auto &part : job->parts)
            needed.insert(part.site);
    sites_.configure(config_, needed);
    links_.configure(config_);
    sites_.know(links_.known(), reserved());
}

Result<void> Broker::resume() {
    auto jobs = journal_.load(static_cast<int>(config_.keep_ended));
    if (!jobs) return std::move(jobs).error();
    for (auto &job : *jobs) {
        const auto id = job.id;
        auto &held = jobs_.emplace(id, std::move(job)).first->second;
        if (coalloc::final(held.state)) continue;
        live_.push_back(&held);
        util::log_info("job " + id + ": taken up again in state " + std::string(coalloc::name(held.state)));
        for (const auto &part : held.parts)
            if (sites_.line(part.site) == nullptr)
                util::log_warning("job " + id + ": site " + part.site +
                                  " is not in spiderflow.conf: its part is not followed, and not cancelled");
        if (auto kept = journal_.request(id)) {
            auto request = wire::parse<wire::PlaceRequest>(*kept);
            if (request) requests_[id] = std::move(*request);
        }
    }
    auto unfinished = journal_.unfinished();
    if (!unfinished) return std::move(unfinished).error();
    for (const auto &effect : *unfinished) {
        util::log_info("job " + effect.job + ": site " + effect.site + ": " + effect.verb +
                       " was under way when the broker ended; what came of it is looked for there");
        if (auto ended = journal_.end(effect.number, "the broker ended", clock_.now()); !ended)
            return std::move(ended).error();
    }
    // sbatch, which brought the script, has given up: what was half placed is taken back.
    for (const auto *job : std::vector(live_))
        if (job->state == State::placing && job->attempt == 1)
            step(jobs_.at(job->id),
                 {Event::placing_failed, "the broker was restarted while the parts were being placed", 0});
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

// What runs is followed all the same when the journal cannot be written; new work is refused.
void Broker::save(const Job &job) {
    unsaved_.insert(job.id);
    if (!journal_trouble_.empty()) return;
    if (auto saved = journal_.save(job); !saved)
        journal_failed(std::move(saved).error());
    else
        unsaved_.erase(job.id);
}

Error Broker::journal_failed(Error error) {
    journal_trouble_ = error.what;
    mend_due_ = clock_.elapsed() + mend_interval;
    util::log_error(journal_trouble_ + "; new jobs are refused, live ones are followed");
    return error;
}

void Broker::mend_journal() {
    if (journal_trouble_.empty() || clock_.elapsed() < mend_due_) return;
    mend_due_ = clock_.elapsed() + mend_interval;
    for (const auto &id : std::set(unsaved_)) {
        const auto *job = find(id);
        if (auto saved = job ? journal_.save(*job) : Result<void>(); !saved) {
            journal_trouble_ = saved.error().what;
            return;
        }
        unsaved_.erase(id);
    }
    util::log_info("journal " + journal_.path() + ": written again; new jobs are taken");
    journal_trouble_.clear();
}

Result<void> Broker::ready() const {
    if (!journal_trouble_.empty())
        return Error{Errc::system, "the broker takes no new jobs now: " + journal_trouble_};
    return {};
}

// The journal is written before the act, so that a broker that dies in between finds the job again and
// repeats the act.
bool Broker::step(Job &job, const Decision &decision) {
    const double idle = job.idle_gpu_seconds;
    const auto action = coalloc::apply(job, decision, policy_, clock_.now());
    if (!action) return false;
    util::log_info("job " + job.id + ": " + std::string(coalloc::name(job.state)) + ": " + decision.why);
    counted_.idle_gpu_seconds_total += job.idle_gpu_seconds - idle;
    counted_.turns_total += *action == Action::give_back ? 1 : 0;
    if (std::find(results.begin(), results.end(), decision.event) != results.end())
        ++counted_.attempts_total[std::string(coalloc::name(decision.event))];
    save(job);
    if (coalloc::final(job.state)) {
        ++counted_.ended_total[std::string(coalloc::name(job.state))];
        requests_.erase(job.id);
        busy_until_ = clock_.elapsed() + busy_after_end;
    } else if (*action == Action::place_parts) {
        submit_parts(job);
    } else {
        perform(job);
    }
    return true;
}

coalloc::Outlook Broker::outlook(const Job &job) const {
    coalloc::Outlook outlook;
    outlook.now = clock_.now();
    if (job.state != State::holding && job.state != State::releasing) return outlook;
    const auto partition = job.options.find("partition");
    for (const auto &part : job.plan.parts)
        outlook.room.push_back(
            has_room(part, job.plan.tp, partition == job.options.end() ? "" : partition->second));
    return outlook;
}

void Broker::advance(Job &job) {
    while (const auto decision = coalloc::decide(job, live_, policy_, outlook(job)))
        if (!step(job, *decision)) return;
}

void Broker::advance_all() {
    for (const auto *live : std::vector(live_)) {
        auto &job = jobs_.at(live->id);
        advance(job);
        if (coalloc::plan_due(job, policy_, clock_.now())) plan_again(job);
        if (job.state == State::placing) settle(job);
        if (!coalloc::final(job.state)) perform(job);
    }
    std::erase_if(live_, [](const auto *job) { return coalloc::final(job->state); });
}

void Broker::tick() {
    sites_.tick();
    links_.tick();
    mend_journal();
    advance_all();
    const auto now = clock_.elapsed();
    if (!live_.empty()) busy_until_ = now + busy_after_end;
    if (now >= follow_due_) {
        follow_due_ = now + config_.poll_jobs;
        sites_.know(links_.known(), reserved());
        for (const auto *job : std::vector(live_))
            follow(jobs_.at(job->id));
    }
    for (const auto &[name, line] : sites_.lines()) { // what was left behind there can now be cancelled
        if (!line.trouble.empty())
            silent_.insert(name);
        else if (silent_.erase(name) > 0)
            busy_until_ = now + busy_after_end;
    }
    if (now >= sweep_due_) {
        sweep_due_ = now + (now < busy_until_ ? sweep_busy : sweep_idle);
        sweep();
    }
    answer_placements();
    forget_old();
}

void Broker::forget_old() {
    const auto keep = static_cast<std::size_t>(config_.keep_ended);
    if (jobs_.size() - live_.size() <= keep + keep / 10) return;
    std::map<std::int64_t, std::string> ended;
    for (const auto &[id, job] : jobs_)
        if (coalloc::final(job.state) && !placements_.count(id)) ended[job.sequence] = id;
    for (auto at = ended.begin(); at != ended.end() && ended.size() > keep; at = ended.erase(at)) {
        jobs_.erase(at->second);
        std::erase_if(acted_, [&](const auto &one) { return one.first.starts_with(at->second + "/"); });
    }
    if (auto pruned = journal_.prune(static_cast<int>(config_.keep_ended)); !pruned)
        util::log_warning(pruned.error().what);
}

Result<Json> Broker::cancel(const Caller &caller, const std::string &id) {
    auto job = own(caller, id);
    if (!job) return std::move(job).error();
    if ((*job)->state == State::ending && (*job)->cancelled)
        return Error{Errc::refused, "job " + id + " is being cancelled already: " +
                                        coalloc::waits_because(**job, policy_, outlook(**job))};
    if (!step(**job, {Event::cancel_asked, "cancelled by " + caller.name, 0}))
        return Error{Errc::refused,
                     "job " + id + " has already ended: " + std::string(coalloc::name((*job)->state))};
    return show(caller, id);
}

Result<Json> Broker::drop(const Caller &caller, const std::string &id) {
    auto job = own(caller, id);
    if (!job) return std::move(job).error();
    step(**job, {Event::plan_dropped, "sbatch submitted nothing", 0});
    return Json::object();
}

std::string Broker::status_line() const {
    std::size_t up = 0;
    for (const auto &[name, line] : sites_.lines())
        up += line.trouble.empty() && line.seen_at > 0 ? 1 : 0;
    return std::to_string(up) + " of " + std::to_string(sites_.lines().size()) + " sites up, " +
           std::to_string(live_.size()) + " federated jobs" +
           (journal_trouble_.empty() ? "" : ", new ones are refused: " + journal_trouble_);
}

} // namespace spider::broker
