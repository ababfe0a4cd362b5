// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: from the user's wish to parts that are held at their sites.
#include "broker/broker.h"

#include "broker/translate.h"
#include "launch/environment.h"
#include "model/trainer.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "util/comment.h"
#include "util/log.h"
#include "wire/limits.h"

#include <algorithm>
#include <set>

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
std::string directory_at_home(const wire::PlanRequest &request) {
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
        if (auto can = launch::can_launch(*plan); !can) return std::move(can).error();
        return plan;
    }
    return Error{Errc::refused, plan->reason};
}

// Slurm 22.05 cannot ask for a type of GPU beside --gpus-per-task, so the home part asks for any.
Result<void> Broker::one_gpu_per_task(const wire::PlanRequest &request) const {
    const auto asked = request.options.find("gpus-per-task");
    if (asked == request.options.end()) return {};
    const auto refused = [&](const std::string &why) {
        return Error{Errc::invalid, "--gpus-per-task=" + asked->second + ": " + why};
    };
    if (asked->second != "1") return refused("one GPU for each task is what a plan is; only 1 is possible");
    if (launcher_of(request.spec) == Launcher::torchrun)
        return refused("with launcher=torchrun there is one task for all GPUs of a node");
    std::set<std::string> types;
    for (const auto &node : sites_.lines().at(config_.home).nodes)
        for (const auto &gpu : node.gpus)
            types.insert(gpu.type);
    if (types.size() > 1)
        return refused("site " + config_.home + " has GPUs of several types, and Slurm names none beside it");
    return {};
}

namespace {

coalloc::Job planned_job(const Caller &caller, const wire::PlanRequest &request, const Plan &plan,
                         Seconds now) {
    coalloc::Job job;
    job.user = caller.name;
    job.uid = caller.uid;
    job.plan = plan;
    job.state = State::planned;
    job.reason = "planned";
    job.submitted = job.entered = now;
    job.user_comment = option(request.options, "comment");
    job.options.insert(request.options.begin(), request.options.end());
    job.options.erase("export"); // "NAME=value" may be a secret, and the journal keeps the options
    job.directory = directory_at_home(request);
    return job;
}

} // namespace

Result<Json> Broker::make_plan(const Caller &caller, const wire::PlanRequest &request) {
    auto spec = request.spec;
    spec.home = config_.home;
    if (!request.options.empty()) {
        auto limits = wire::limits_of(request.options);
        if (!limits) return std::move(limits).error();
        spec.limits = *limits;
    }
    if (auto can = one_gpu_per_task(request); !can) return std::move(can).error();
    auto plan = search(spec, option(request.options, "partition"));
    if (!plan) return std::move(plan).error();
    wire::PlanReply reply;
    reply.plan = *plan;
    reply.line = plan::summary(*plan);

    auto job = planned_job(caller, request, *plan, clock_.now());
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
    reply.environment = home_environment(job, sites_.line(config_.home)->config, policy_);
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
    request.spank_options = forwarded(request.spank_options, config_.forward_options);
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

// The requests for the parts at other sites. What one of them cannot have is found before any is submitted.
Result<std::vector<slurm::Call>> Broker::calls_for(Job &job, const wire::PlaceRequest &request) {
    std::vector<slurm::Call> calls;
    for (std::size_t i = 1; i < job.parts.size(); ++i) {
        auto &part = job.parts[i];
        const auto *line = sites_.line(part.site);
        if (line == nullptr)
            return Error{Errc::not_found, "site " + part.site + ": no longer in spiderflow.conf"};
        const auto type = sites_.gres_type(part.site, job.plan.parts[i].gpu);
        auto submission = submission_of(job, i, line->config, type, request, policy_);
        if (!submission) return std::move(submission).error().within("site " + part.site);
        part.directory = submission->directory;
        part.output = submission->output;
        part.error = submission->error;
        calls.push_back(line->api->submit(*submission));
    }
    return calls;
}

void Broker::submit_parts(Job &job) {
    auto &placement = placements_[job.id];
    placement.open = 1; // this function itself, so that no answer ends it early
    const auto calls = calls_for(job, placement.request);
    if (!calls) placement.trouble = calls.error().what;
    for (std::size_t i = 1; calls && i < job.parts.size(); ++i) {
        ++placement.open;
        sites_.call(
            job.parts[i].site, job.parts[i].user, (*calls)[i - 1], submit_timeout,
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
