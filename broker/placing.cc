// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: parts come to their sites, held. Of the first attempt sbatch brings the home part and waits for the
// answer; of a further one every part is submitted from here, and nobody waits.
#include "broker/broker.h"

#include "broker/translate.h"
#include "util/comment.h"
#include "util/log.h"

#include <algorithm>
#include <cmath>

namespace spider::broker {

using coalloc::Event;
using coalloc::PartState;
using coalloc::State;

namespace {

constexpr Seconds submit_timeout = 15;
constexpr Seconds check_timeout = 6;
constexpr Seconds longest_placing = 40;        // the helper in sbatch waits 45 s
constexpr Seconds longest_placing_again = 120; // with nobody waiting
constexpr Seconds clock_tolerance = 5;         // what a request and a busy controller may take

// With these the site was not asked, or has said no. After any other error the part may be there.
bool certainly_not_there(Errc code) {
    return code == Errc::refused || code == Errc::denied || code == Errc::invalid || code == Errc::not_found;
}

// How far the site's clock is before ours, by the time that it gave to what was submitted just now.
Seconds clock_ahead(const slurm::JobView &view, Seconds now) {
    const auto ahead = static_cast<Seconds>(view.submit_time) - now;
    return view.submit_time == 0 || std::abs(ahead) < clock_tolerance ? 0 : ahead;
}

std::string option(const coalloc::Job &job, const std::string &name) {
    const auto found = job.options.find(name);
    return found == job.options.end() ? std::string() : found->second;
}

} // namespace

void Broker::place(const Caller &caller, const std::string &id, wire::PlaceRequest request, Respond respond) {
    auto found = own(caller, id);
    if (!found) return respond(std::move(found).error());
    auto &job = **found;
    if (job.state != State::planned || placements_.count(id) || request.home_job <= 0)
        return respond(Error{Errc::refused, "job " + id + " is " + std::string(coalloc::name(job.state)) +
                                                ": " + job.reason});
    request.spank_options = forwarded(request.spank_options, config_.forward_options);
    if (job.spec.on_failure != OnFailure::cancel) {
        auto kept = journal_.keep_request(id, model::print_json(wire::to_json(request)));
        if (!kept) return respond(journal_failed(std::move(kept).error()));
    }
    job.parts.front().job = request.home_job;
    requests_[id] = std::move(request);
    placements_[id] = {std::move(respond), "", clock_.elapsed() + longest_placing};
    ask_part(job, 0, "check", sites_.line(config_.home)->api->job(job.parts.front().job), check_timeout,
             [this](Job &checked, Result<slurm::Reply> reply) { check_home(checked, std::move(reply)); });
}

// The home part is what the caller says: held, his, and marked with this job's id.
void Broker::check_home(Job &job, Result<slurm::Reply> reply) {
    if (job.state != State::planned) return;
    auto &home = job.parts.front();
    auto view = reply ? sites_.line(home.site)->api->read_job(*reply)
                      : Result<slurm::JobView>(std::move(reply).error());
    const auto mark = view ? util::parse_comment(view->comment) : std::nullopt;
    const auto there = "site " + home.site + ": job " + std::to_string(home.job);
    std::string trouble;
    if (!view)
        trouble = "site " + home.site + ": " + view.error().what;
    else if (!mark || mark->job != job.id || view->user != home.user)
        trouble = there + " is not the home part of " + job.id;
    else if (slurm::is_over(view->state))
        trouble = there + " has already ended as " + view->state_text;
    if (!trouble.empty()) {
        placements_[job.id].trouble = trouble;
        home.job = 0; // never touch a job that is not proved to be ours; the sweep finds ours by its comment
        step(job, {Event::home_submitted, trouble, 0});
        return refused(job, 0, trouble);
    }
    home.state = PartState::held;
    home.slurm_state = view->state_text;
    home.restarts = view->restarts;
    home.clock_ahead = clock_ahead(*view, clock_.now());
    home.directory = job.directory;
    home.output = option(job, "output").empty() ? "slurm-%j.out" : option(job, "output");
    home.error = option(job, "error");
    job.name = view->name;
    step(job, {Event::home_submitted, "job " + std::to_string(home.job) + " at " + home.site, 0});
}

Result<slurm::Call> Broker::submission_call(Job &job, std::size_t index) {
    auto &part = job.parts[index];
    const auto *line = sites_.line(part.site);
    if (line == nullptr) return Error{Errc::refused, "no longer in spiderflow.conf"};
    if (line->config.state != SiteState::active)
        return Error{Errc::refused, "takes no new parts: its state in spiderflow.conf is " +
                                        std::string(model::name(line->config.state))};
    const auto type = sites_.gres_type(part.site, job.plan.parts[index].gpu);
    auto submission = submission_of(job, index, line->config, type, requests_.at(job.id), policy_);
    if (!submission) return std::move(submission).error();
    part.directory = submission->directory;
    part.output = submission->output;
    part.error = submission->error;
    return line->api->submit(*submission);
}

// What one of the parts cannot have is found before any is submitted.
void Broker::submit_parts(Job &job) {
    const auto placement = placements_.find(job.id);
    if (placement != placements_.end() && !placement->second.trouble.empty()) return;
    if (!requests_.count(job.id)) return refused(job, 0, "its script is not kept any more");
    std::vector<std::pair<std::size_t, slurm::Call>> calls;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        if (job.parts[i].state != PartState::unsubmitted) continue;
        auto call = submission_call(job, i);
        if (!call) return refused(job, i, "site " + job.parts[i].site + ": " + call.error().what);
        calls.emplace_back(i, std::move(*call));
    }
    for (const auto &[index, call] : calls) {
        if (job.state != State::placing) return; // a failure ended it
        submit_part(job, index, call);
    }
}

void Broker::submit_part(Job &job, std::size_t index, const slurm::Call &call) {
    auto &part = job.parts[index];
    part.state = PartState::submitting;
    save(job);
    if (!journal_trouble_.empty()) { // without the journal it might be lost there
        part.state = PartState::unsubmitted;
        return refused(job, index, journal_trouble_);
    }
    ask_effect(job, index, "submit", call, submit_timeout,
               [this, index](Job &submitted, Result<slurm::Reply> reply) {
                   take_submitted(submitted, index, std::move(reply));
               });
}

void Broker::take_submitted(Job &job, std::size_t index, Result<slurm::Reply> reply) {
    auto &part = job.parts[index];
    const auto *line = sites_.line(part.site);
    if (part.state != PartState::submitting || line == nullptr) return;
    const bool asked = static_cast<bool>(reply);
    auto submitted = asked ? line->api->read_submit(*reply) : Result<slurm::Submitted>(reply.error());
    if (!submitted) {
        const auto code = submitted.error().code;
        const bool nobody_was_asked = !asked && code == Errc::unreachable;
        if (nobody_was_asked || certainly_not_there(code)) part.state = PartState::unsubmitted;
        save(job);
        // Without an answer it is looked for by its mark before anything else; sbatch cannot wait for that.
        if (job.attempt == 1 || part.state == PartState::unsubmitted)
            refused(job, index, "site " + part.site + ": " + submitted.error().what);
        return;
    }
    part.job = submitted->job;
    part.state = PartState::pending;
    save(job);
    if (!submitted->trouble.empty())
        return refused(job, index, "site " + part.site + ": " + submitted->trouble);
    if (job.state == State::placing) return read_back(job, index);
    perform(job); // it is not wanted any more
}

// What counts is what the site's controller holds.
void Broker::read_back(Job &job, std::size_t index) {
    const auto *line = sites_.line(job.parts[index].site);
    if (line == nullptr) return;
    ask_part(job, index, "check", line->api->job(job.parts[index].job), check_timeout,
             [this, index](Job &placed, Result<slurm::Reply> reply) {
                 take_read_back(placed, index, std::move(reply));
             });
}

void Broker::take_read_back(Job &job, std::size_t index, Result<slurm::Reply> reply) {
    auto &part = job.parts[index];
    const auto *line = sites_.line(part.site);
    if (job.state != State::placing || part.state != PartState::pending || line == nullptr) return;
    auto view = reply ? line->api->read_job(*reply) : Result<slurm::JobView>(std::move(reply).error());
    const auto there = "site " + part.site + ": job " + std::to_string(part.job);
    if (!view) {
        if (job.attempt == 1 || view.error().code == Errc::not_found)
            refused(job, index, there + " cannot be read back: " + view.error().what);
        return;
    }
    const auto mark = util::parse_comment(view->comment);
    if (!view->held || !mark || mark->job != job.id || view->user != part.user)
        return refused(job, index, there + " is " + view->state_text + " and not held as asked");
    part.state = PartState::held;
    part.slurm_state = view->state_text;
    part.restarts = view->restarts;
    part.clock_ahead = clock_ahead(*view, clock_.now());
    if (part.clock_ahead != 0)
        util::log_warning("site " + part.site + ": its clock is " +
                          std::to_string(static_cast<int>(part.clock_ahead)) +
                          " s ahead of this host's; its estimates are corrected for that");
    save(job);
    settle(job);
}

void Broker::refused(Job &job, std::size_t index, const std::string &why) {
    const auto placement = placements_.find(job.id);
    if (placement != placements_.end() && placement->second.trouble.empty()) placement->second.trouble = why;
    step(job, {Event::placing_failed, why, index});
}

// What a job that is being placed still lacks. Parts whose submission got no answer are looked for by the
// sweep, which turns them into what they are.
void Broker::settle(Job &job) {
    if (job.state != State::placing) return;
    const auto is = [](PartState state) { return [state](const auto &part) { return part.state == state; }; };
    if (std::all_of(job.parts.begin(), job.parts.end(), is(PartState::held))) {
        if (job.spec.on_failure == OnFailure::cancel) requests_.erase(job.id);
        wire::PlaceReply reply;
        for (const auto &part : job.parts)
            reply.parts.push_back({part.site, part.job});
        step(job, {Event::all_held, "every part is held at its site", 0});
        const auto placement = placements_.find(job.id);
        if (placement == placements_.end()) return;
        const auto respond = std::move(placement->second.respond);
        placements_.erase(placement);
        return respond(wire::to_json(reply));
    }
    if (job.attempt == 1) return; // each answer brings the next step
    if (clock_.now() - job.entered > longest_placing_again) {
        const auto missing = std::find_if_not(job.parts.begin(), job.parts.end(), is(PartState::held));
        return refused(job, static_cast<std::size_t>(missing - job.parts.begin()),
                       "site " + missing->site + ": the part could not be placed in time");
    }
    for (std::size_t i = 0; i < job.parts.size(); ++i)
        if (job.parts[i].state == PartState::pending) read_back(job, i);
    if (std::any_of(job.parts.begin(), job.parts.end(), is(PartState::unsubmitted))) submit_parts(job);
}

// A refusal is told to sbatch when nothing is left anywhere, or when it cannot wait longer.
void Broker::answer_placements() {
    for (auto at = placements_.begin(); at != placements_.end();) {
        const auto *job = find(at->first);
        const bool gone = job == nullptr || coalloc::final(job->state);
        if (!gone && clock_.elapsed() < at->second.until) {
            ++at;
            continue;
        }
        auto why = at->second.trouble.empty() && job != nullptr ? job->reason : at->second.trouble;
        const auto respond = std::move(at->second.respond);
        at = placements_.erase(at);
        respond(Error{Errc::refused,
                      why + (gone ? "; every part was cancelled" : "; the other parts are being cancelled")});
    }
}

} // namespace spider::broker
