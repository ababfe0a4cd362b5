// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: from the user's wish to parts that are held at their sites.
#include "broker/broker.h"

#include "broker/translate.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "util/comment.h"
#include "util/log.h"
#include "wire/limits.h"

#include <algorithm>

namespace spider::broker {

using coalloc::Event;
using coalloc::PartState;
using coalloc::State;

namespace {

constexpr Seconds fresh_view = 2; // a view older than this is polled again before planning
constexpr Seconds longest_refresh = 1.5;
constexpr Seconds submit_timeout = 15;
constexpr Seconds longest_placing = 40; // the helper in sbatch waits 45 s

std::string option(const wire::Names &options, std::string_view name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : found->second;
}

// Where the script runs: sbatch's --chdir, else where sbatch was typed.
std::string directory_of(const wire::PlanRequest &request) {
    const auto chdir = option(request.options, "chdir");
    if (chdir.empty()) return request.cwd;
    return chdir.front() == '/' ? chdir : request.cwd + "/" + chdir;
}

Result<void> this_version_can(const JobSpec &spec) {
    if (spec.on_failure != OnFailure::cancel)
        return Error{Errc::invalid, "on_failure=" + std::string(name(spec.on_failure)) +
                                        ": not in this version; use on_failure=cancel"};
    if (spec.sync != "every")
        return Error{Errc::invalid, "sync=" + spec.sync + ": not in this version; use sync=every"};
    return {};
}

} // namespace

void Broker::plan(const Caller &caller, const wire::PlanRequest &request, Respond respond) {
    if (auto can = this_version_can(request.spec); !can) return respond(std::move(can).error());
    if (auto may = may_submit(caller); !may) return respond(std::move(may).error());
    sites_.refresh(fresh_view, longest_refresh, [this, caller, request, respond = std::move(respond)] {
        respond(make_plan(caller, request));
    });
}

// With the token of Slurm's own user, root's name would make a job of root at every site.
Result<void> Broker::may_submit(const Caller &caller) const {
    for (const auto &site : config_.sites) {
        const auto there = mapped(site.users, caller.name);
        if (caller.uid == 0 || there == "root" || there == site.token_user)
            return Error{Errc::denied, "user " + caller.name + " may not start federated jobs: he would be " +
                                           there + " at site " + site.name};
    }
    return {};
}

// First on what is free now; when that is not enough, on all that is in service, and the parts wait in the
// queues.
Result<Plan> Broker::search(JobSpec spec, const std::string &partition) {
    Result<Plan> plan = Error{Errc::invalid, "no plan"};
    for (const bool only_free : {true, false}) {
        auto federation = sites_.federation(partition, only_free);
        if (!federation) return std::move(federation).error();
        plan = plan::make_plan(*federation, spec);
        if (!plan) return plan;
        if (plan->outcome != Outcome::planned) continue;
        if (auto good = plan::check(*federation, spec, *plan); !good)
            return std::move(good).error().within("the plan was refused by its check");
        return plan;
    }
    return Error{Errc::refused, plan->reason};
}

Result<Json> Broker::make_plan(const Caller &caller, const wire::PlanRequest &request) {
    auto spec = request.spec;
    spec.home = config_.home;
    if (!request.options.empty()) {
        auto limits = wire::limits_of(request.options);
        if (!limits) return std::move(limits).error();
        spec.limits = *limits;
    }
    auto plan = search(spec, option(request.options, "partition"));
    if (!plan) return std::move(plan).error();
    wire::PlanReply reply;
    reply.plan = *plan;
    reply.line = plan::summary(*plan);

    Job job;
    job.user = caller.name;
    job.uid = caller.uid;
    job.plan = *plan;
    job.state = State::planned;
    job.reason = "planned";
    job.submitted = job.entered = clock_.now();
    job.user_comment = option(request.options, "comment");
    job.options.insert(request.options.begin(), request.options.end());
    job.options.erase("export"); // "NAME=value" may be a secret, and the journal keeps the options
    job.directory = directory_of(request);
    for (const auto &part : plan->parts)
        job.parts.push_back(
            {.site = part.site, .user = mapped(sites_.line(part.site)->config.users, caller.name)});
    job.history.push_back({job.entered, State::planned, reply.line});

    const auto type = sites_.gres_type(config_.home, plan->parts.front().gpu);
    if (request.test_only) { // only the size: sbatch asks its own site when such a job could start
        reply.options = home_options(job, type);
        std::erase_if(reply.options,
                      [](const auto &pair) { return pair.first == "comment" || pair.first == "hold"; });
        return wire::to_json(reply);
    }
    auto number = journal_.next_sequence();
    if (!number) return std::move(number).error();
    job.sequence = *number;
    job.id = config_.home + "-" + std::to_string(*number);
    reply.id = job.id;
    reply.options = home_options(job, type);
    reply.environment = home_environment(job, policy_);
    if (auto saved = save(job); !saved) return std::move(saved).error();
    util::log_info("job " + job.id + ": planned for " + caller.name + ": " + reply.line);
    jobs_[job.id] = std::move(job);
    return wire::to_json(reply);
}

void Broker::place(const Caller &caller, const std::string &id, wire::PlaceRequest request, Respond respond) {
    auto job = own(caller, id);
    if (!job) return respond(std::move(job).error());
    if ((*job)->state != State::planned || placements_.count(id) || request.home_job <= 0)
        return respond(Error{Errc::refused, "job " + id + " is " + std::string(coalloc::name((*job)->state)) +
                                                ": " + (*job)->reason});
    (*job)->parts.front().job = request.home_job;
    placements_[id] = {std::move(request), std::move(respond), 0, "", clock_.elapsed() + longest_placing};
    auto *home = sites_.line(config_.home);
    ask_part(**job, 0, "check", home->api->job((*job)->parts.front().job),
             [this, id](Result<slurm::Reply> reply) { check_home(id, std::move(reply)); });
}

// The home part is what the caller says: held, his, and marked with this job's id.
void Broker::check_home(const std::string &id, Result<slurm::Reply> reply) {
    auto *job = find(id);
    if (job == nullptr || job->state != State::planned) return;
    auto &home = job->parts.front();
    auto view = reply ? sites_.line(home.site)->api->read_job(*reply)
                      : Result<slurm::JobView>(std::move(reply).error());
    auto &placement = placements_[id];
    const auto mark = view ? util::parse_comment(view->comment) : std::nullopt;
    if (!view)
        placement.trouble = "site " + home.site + ": " + view.error().what;
    else if (!mark || mark->job != id || view->user != home.user)
        placement.trouble =
            "site " + home.site + ": job " + std::to_string(home.job) + " is not the home part of " + id;
    else if (slurm::is_over(view->state))
        placement.trouble = "site " + home.site + ": job " + std::to_string(home.job) +
                            " has already ended as " + view->state_text;
    if (view && placement.trouble.empty()) {
        home.state = PartState::held;
        home.slurm_state = view->state_text;
        job->name = view->name;
        const wire::Names options(job->options.begin(), job->options.end());
        home.directory = job->directory;
        home.output = option(options, "output").empty() ? "slurm-%j.out" : option(options, "output");
        home.error = option(options, "error");
    }
    const bool usable = placement.trouble.empty();
    if (!usable)
        home.job = 0; // never touch a job that is not proved to be ours; the sweep finds ours by its comment
    step(*job, Event::home_submitted,
         usable ? "job " + std::to_string(home.job) + " at " + home.site : placement.trouble);
}

void Broker::submit_parts(Job &job) {
    auto &placement = placements_[job.id];
    placement.open = 1; // this function itself, so that no answer ends it early
    for (std::size_t i = 1; placement.trouble.empty() && i < job.parts.size(); ++i) {
        auto *line = sites_.line(job.parts[i].site);
        const auto type = line ? sites_.gres_type(job.parts[i].site, job.plan.parts[i].gpu) : "";
        auto submission =
            line ? submission_of(job, i, line->config, type, placement.request, policy_)
                 : Result<slurm::Submission>(Error{Errc::not_found, "no longer in spiderflow.conf"});
        ++placement.open;
        if (!submission) {
            part_refused(job.id, i, submission.error().what);
            continue;
        }
        job.parts[i].output = submission->output;
        sites_.call(
            job.parts[i].site, job.parts[i].user, line->api->submit(*submission), submit_timeout,
            [this, id = job.id, i](Result<slurm::Reply> reply) { take_submitted(id, i, std::move(reply)); });
    }
    part_settled(job.id);
}

void Broker::take_submitted(const std::string &id, std::size_t index, Result<slurm::Reply> reply) {
    auto *job = find(id);
    if (job == nullptr) return;
    auto &part = job->parts[index];
    const auto *line = sites_.line(part.site);
    if (line == nullptr) return part_refused(id, index, "no longer in spiderflow.conf");
    auto submitted =
        reply ? line->api->read_submit(*reply) : Result<slurm::Submitted>(std::move(reply).error());
    // No answer may still mean a job there: the sweep finds it by its comment.
    if (!submitted) return part_refused(id, index, submitted.error().what);
    part.job = submitted->job;
    part.state = PartState::pending;
    [[maybe_unused]] const auto saved = save(*job);
    if (!submitted->trouble.empty()) return part_refused(id, index, submitted->trouble);
    // Read back: what counts is what the site's controller holds.
    ask_part(*job, index, "check", line->api->job(part.job), [this, id, index](Result<slurm::Reply> answer) {
        auto *placed = find(id);
        if (placed == nullptr) return;
        auto &mine = placed->parts[index];
        const auto *where = sites_.line(mine.site);
        auto view = answer && where ? where->api->read_job(*answer)
                                    : Result<slurm::JobView>(Error{Errc::unreachable, "no answer"});
        if (!view)
            return part_refused(
                id, index, "job " + std::to_string(mine.job) + " cannot be read back: " + view.error().what);
        const auto mark = util::parse_comment(view->comment);
        if (!view->held || !mark || mark->job != id || view->user != mine.user)
            return part_refused(id, index,
                                "job " + std::to_string(mine.job) + " is " + view->state_text +
                                    " and not held as asked");
        mine.state = PartState::held;
        mine.slurm_state = view->state_text;
        part_settled(id);
    });
}

void Broker::part_refused(const std::string &id, std::size_t index, const std::string &why) {
    const auto *job = find(id);
    const auto placement = placements_.find(id);
    if (job != nullptr && placement != placements_.end() && placement->second.trouble.empty())
        placement->second.trouble = "site " + job->parts[index].site + ": " + why;
    part_settled(id);
}

// One submission fewer to wait for; with the last one it is decided.
void Broker::part_settled(const std::string &id) {
    auto *job = find(id);
    const auto found = placements_.find(id);
    if (job == nullptr || found == placements_.end() || --found->second.open > 0) return;
    if (!found->second.trouble.empty()) {
        step(*job, Event::placing_failed, found->second.trouble);
        return; // answered when everything is gone
    }
    if (!step(*job, Event::all_held, "every part is held at its site")) {
        found->second.trouble = job->reason; // cancelled meanwhile
        return;
    }
    wire::PlaceReply reply;
    for (const auto &part : job->parts)
        reply.parts.push_back({part.site, part.job});
    const auto respond = std::move(found->second.respond);
    placements_.erase(found);
    respond(wire::to_json(reply));
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
