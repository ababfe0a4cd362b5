// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: from the user's wish to parts that are held at their sites.
#include "broker/broker.h"

#include "broker/translate.h"
#include "launch/environment.h"
#include "model/trainer.h"
#include "plan/link_words.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "plan/traffic.h"
#include "util/log.h"
#include "wire/limits.h"

#include <algorithm>
#include <set>

namespace spider::broker {

using coalloc::Event;
using coalloc::State;

namespace {

constexpr Seconds fresh_view = 2; // a view older than this is polled again before planning
constexpr Seconds longest_refresh = 1.5;

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
    if (spec.sync != "every")
        return Error{Errc::invalid, "sync=" + spec.sync + ": not in this version; use sync=every"};
    return {};
}

} // namespace

void Broker::plan(const Caller &caller, const wire::PlanRequest &request, Respond respond) {
    if (auto can = this_version_can(request.spec); !can) return respond(std::move(can).error());
    if (auto may = may_submit(caller); !may) return respond(std::move(may).error());
    if (auto good = ready(); !good) return respond(std::move(good).error());
    sites_.refresh(fresh_view, longest_refresh, [this, caller, request, respond = std::move(respond)] {
        links_.freshen(candidates(request.spec), config_.probe.before_plan,
                       [this, caller, request, respond] { respond(make_plan(caller, request)); });
    });
}

// The sites that may take part.
std::vector<std::string> Broker::candidates(const JobSpec &spec) const {
    if (!spec.sites.empty()) return spec.sites;
    std::vector<std::string> names;
    for (const auto &[name, line] : sites_.lines())
        if (line.config.state == SiteState::active && line.config.routable && line.trouble.empty())
            names.push_back(name);
    return names;
}

// What live jobs send between sites, on average; a job that waits for a further attempt sends nothing.
Reserved Broker::reserved() const {
    Reserved reserved;
    for (const auto *job : live_) {
        if (job->state == State::asked) continue;
        for (const auto &traffic : plan::traffic(job->spec, job->plan))
            reserved[{traffic.from, traffic.to}] +=
                plan::average_gbps(traffic.bytes, job->plan.iteration.seconds);
    }
    return reserved;
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
Result<Plan> Broker::search(const JobSpec &spec, const std::string &partition,
                            const std::vector<std::string> &left_out) {
    Result<Plan> plan = Error{Errc::invalid, "no plan"};
    sites_.know(links_.known(), reserved());
    for (const bool only_free : {true, false}) {
        auto federation = sites_.federation(partition, only_free, left_out);
        if (!federation) return std::move(federation).error();
        plan = plan::make_plan(*federation, spec);
        if (!plan) return plan;
        if (plan->outcome != Outcome::planned) continue;
        if (auto good = plan::check(*federation, spec, *plan); !good)
            return std::move(good).error().within("the plan was refused by its check");
        if (auto can = launch::can_launch(*plan); !can) return std::move(can).error();
        return plan;
    }
    const auto unknown = links_.unknown(candidates(spec));
    return Error{Errc::refused,
                 plan->reason + (unknown.empty() ? "" : "; links that are not known: " + unknown)};
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

// Whether the part's nodes are free there now, as the last poll saw it.
bool Broker::has_room(const Part &part, int tp, const std::string &partition) const {
    const auto found = sites_.lines().find(part.site);
    if (found == sites_.lines().end()) return false;
    const auto &line = found->second;
    const auto there = partition.empty() ? line.config.partition : mapped(line.config.partitions, partition);
    std::size_t most = 0;
    for (const auto &node : part.nodes)
        most = std::max(most, node.size());
    const auto fits = [&](const slurm::NodeView &node) {
        const bool in = there.empty() || std::find(node.partitions.begin(), node.partitions.end(), there) !=
                                             node.partitions.end();
        return in && node.free_gpus() >= static_cast<int>(most) * tp;
    };
    return std::count_if(line.nodes.begin(), line.nodes.end(), fits) >=
           static_cast<std::ptrdiff_t>(part.nodes.size());
}

void Broker::make_parts(Job &job) {
    job.parts.clear();
    for (const auto &part : job.plan.parts) {
        std::size_t slots = 0;
        for (const auto &node : part.nodes)
            slots += node.size();
        coalloc::PartRecord record;
        record.site = part.site;
        if (const auto *line = sites_.line(part.site)) record.user = mapped(line->config.users, job.user);
        record.gpus = static_cast<int>(slots) * job.plan.tp;
        job.parts.push_back(std::move(record));
    }
}

Result<coalloc::Job> Broker::planned_job(const Caller &caller, const wire::PlanRequest &request) {
    Job job;
    job.spec = request.spec;
    job.spec.home = config_.home;
    if (!request.options.empty()) {
        auto limits = wire::limits_of(request.options);
        if (!limits) return std::move(limits).error();
        job.spec.limits = *limits;
    }
    const auto asked = [&](std::string_view name) { return request.options.contains(name); };
    if (asked("requeue") && job.spec.on_failure == OnFailure::cancel) job.spec.on_failure = OnFailure::retry;
    job.user_hold = asked("hold");
    job.home_first = job.user_hold || asked("begin") || asked("dependency");
    job.user = caller.name;
    job.uid = caller.uid;
    job.state = State::planned;
    job.submitted = job.entered = clock_.now();
    job.user_comment = option(request.options, "comment");
    job.options.insert(request.options.begin(), request.options.end());
    job.options.erase("export"); // "NAME=value" may be a secret, and the journal keeps the options
    job.directory = directory_at_home(request);
    auto plan = search(job.spec, option(request.options, "partition"), {});
    if (!plan) return std::move(plan).error();
    job.plan = std::move(*plan);
    make_parts(job);
    job.reason = plan::summary(job.plan);
    job.history.push_back({job.entered, State::planned, job.reason});
    return job;
}

Result<Json> Broker::make_plan(const Caller &caller, const wire::PlanRequest &request) {
    if (auto can = one_gpu_per_task(request); !can) return std::move(can).error();
    auto planned = planned_job(caller, request);
    if (!planned) return std::move(planned).error();
    auto &job = *planned;
    wire::PlanReply reply;
    reply.plan = job.plan;
    reply.line = job.reason;
    if (const auto ages = plan::link_ages(job.plan, clock_.now()); !ages.empty()) reply.line += "; " + ages;
    const auto type = sites_.gres_type(config_.home, job.plan.parts.front().gpu);
    if (request.test_only) { // only the size: sbatch asks its own site when such a job could start
        reply.options = home_options(job, type);
        std::erase_if(reply.options,
                      [](const auto &pair) { return pair.first == "comment" || pair.first == "hold"; });
        return wire::to_json(reply);
    }
    auto number = journal_.next_sequence();
    if (!number) return journal_failed(std::move(number).error());
    job.sequence = *number;
    job.id = reply.id = config_.home + "-" + std::to_string(*number);
    reply.options = home_options(job, type);
    reply.environment = home_environment(job, sites_.line(config_.home)->config, policy_);
    if (auto saved = journal_.save(job); !saved) return journal_failed(std::move(saved).error());
    util::log_info("job " + job.id + ": planned for " + caller.name + ": " + reply.line);
    live_.push_back(&jobs_.insert_or_assign(job.id, std::move(job)).first->second);
    return wire::to_json(reply);
}

// A further attempt: the same plan, or one for the sites that are left. Every part is submitted from here.
void Broker::plan_again(Job &job) {
    if (!asked_.insert(job.id + "/plan").second) return;
    sites_.refresh(fresh_view, longest_refresh, [this, id = job.id] {
        asked_.erase(id + "/plan");
        auto *again = find(id);
        if (again == nullptr || again->state != State::asked) return;
        if (!requests_.count(id)) {
            step(*again, {Event::no_plan, "its script is not kept any more: submit it again", 0});
            return;
        }
        if (again->spec.on_failure == OnFailure::replan) {
            auto plan =
                search(again->spec, option({again->options.begin(), again->options.end()}, "partition"),
                       again->left_out);
            if (!plan) {
                step(*again, {Event::no_plan, "no plan for a further attempt: " + plan.error().what, 0});
                return;
            }
            again->plan = std::move(*plan);
        }
        make_parts(*again);
        step(*again, {Event::planned_again, plan::summary(again->plan), 0});
    });
}

} // namespace spider::broker
