// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: what callers get to see.
#include "broker/broker.h"

#include "broker/output_path.h"
#include "config.h"
#include "launch/environment.h"
#include "plan/summary.h"

#include <algorithm>
#include <set>

namespace spider::broker {
namespace {

// "0-1,3": the stages that a part holds.
std::string stages_of(const Part &part) {
    std::set<int> stages;
    for (const auto &node : part.nodes)
        for (const auto &slot : node)
            stages.insert(slot.stage);
    std::string text;
    for (auto at = stages.begin(); at != stages.end();) {
        auto last = at;
        while (std::next(last) != stages.end() && *std::next(last) == *last + 1)
            ++last;
        text +=
            (text.empty() ? "" : ",") + std::to_string(*at) + (last == at ? "" : "-" + std::to_string(*last));
        at = std::next(last);
    }
    return text;
}

wire::PartView part_view(const coalloc::Job &job, std::size_t index) {
    const auto &record = job.parts[index];
    const auto &part = job.plan.parts[index];
    wire::PartView view;
    view.site = record.site;
    view.job = record.job;
    view.state = record.slurm_state.empty() ? std::string(coalloc::name(record.state)) : record.slurm_state;
    view.nodes = launch::size_of(job.plan, part).nodes;
    view.gpus = record.gpus;
    view.stages = stages_of(part);
    view.output = output_path(record.output, job, record);
    view.error = output_path(record.error.empty() ? record.output : record.error, job, record);
    view.expected_start = record.expected_start;
    view.restarts = record.restarts;
    return view;
}

wire::JobView view_of(const coalloc::Job &job, const std::string &waits, Seconds now, bool with_plan) {
    wire::JobView view;
    view.id = job.id;
    view.user = job.user;
    view.name = job.name;
    view.state = coalloc::name(job.state);
    view.reason = waits.empty() ? job.reason : waits;
    view.attempt = job.attempt;
    view.attempts = job.spec.on_failure == OnFailure::cancel ? 1 : job.spec.attempts;
    view.on_failure = model::name(job.spec.on_failure);
    view.turns = job.turns;
    view.idle_gpu_seconds = coalloc::idle_gpu_seconds(job, now);
    view.submitted = job.submitted;
    view.line = job.plan.stages.empty() ? "the plan was " + job.plan.reason : plan::summary(job.plan);
    if (with_plan) view.plan = job.plan;
    for (std::size_t i = 0; i < job.parts.size(); ++i)
        view.parts.push_back(part_view(job, i));
    for (const auto &line : job.history)
        view.history.push_back({line.at, std::string(coalloc::name(line.state)), line.why});
    return view;
}

} // namespace

Result<Json> Broker::show(const Caller &caller, const std::string &id) const {
    const auto found = jobs_.find(id);
    if (found == jobs_.end() || (found->second.uid != caller.uid && !caller.is_operator))
        return Error{Errc::not_found, "no job " + id + " of yours"};
    const auto &job = found->second;
    return wire::to_json(
        view_of(job, coalloc::waits_because(job, policy_, outlook(job)), clock_.now(), true));
}

Result<Json> Broker::list(const Caller &caller, bool all) const {
    std::vector<const Job *> shown;
    for (const auto &[id, job] : jobs_)
        if ((job.uid == caller.uid || caller.is_operator) && (all || !coalloc::final(job.state)))
            shown.push_back(&job);
    std::sort(shown.begin(), shown.end(),
              [](const auto *a, const auto *b) { return a->sequence < b->sequence; });
    wire::JobList list;
    for (const auto *job : shown)
        list.jobs.push_back(
            view_of(*job, coalloc::waits_because(*job, policy_, outlook(*job)), clock_.now(), false));
    return wire::to_json(list);
}

Metrics Broker::metrics() const {
    Metrics metrics = counted_;
    metrics.now = clock_.now();
    metrics.version = PACKAGE_VERSION;
    metrics.journal_good = journal_trouble_.empty();
    for (int state = 0; state <= static_cast<int>(coalloc::State::ending); ++state)
        metrics.jobs_by_state[std::string(coalloc::name(static_cast<coalloc::State>(state)))] = 0;
    for (const auto *job : live_) {
        ++metrics.jobs_by_state[std::string(coalloc::name(job->state))];
        metrics.idle_gpu_seconds_total +=
            coalloc::idle_gpu_seconds(*job, metrics.now) - job->idle_gpu_seconds;
        const bool waits = job->state == coalloc::State::holding || job->state == coalloc::State::releasing ||
                           job->state == coalloc::State::rendezvous;
        if (waits) metrics.oldest_wait = std::max(metrics.oldest_wait, metrics.now - job->submitted);
    }
    for (const auto &link : links_.known())
        metrics.links.push_back(
            {link.from, link.to, link.source, link.gbps * 1e9 / 8, link.rtt_ms / 1e3, link.measured_at});
    for (const auto &[name, line] : sites_.lines()) {
        SiteMetrics site;
        site.name = name;
        site.up = line.trouble.empty() && line.seen_at > 0;
        site.seen_at = line.seen_at;
        site.token_expires = line.token_expires;
        site.requests = line.requests;
        site.failures = line.failures;
        for (const auto &node : line.nodes) {
            site.nodes += 1;
            site.gpus += node.gpu_count();
            site.free_gpus += node.free_gpus();
        }
        metrics.sites.push_back(std::move(site));
    }
    return metrics;
}

Json Broker::links() const { return wire::to_json(links_.view(reserved())); }

Result<Json> Broker::import_links(const Caller &caller, const wire::ImportRequest &request) {
    if (!caller.is_operator)
        return Error{Errc::denied, "only operators of the broker may import links: see [broker] operators"};
    if (auto taken = links_.take(request.samples); !taken) return std::move(taken).error();
    return wire::to_json(wire::ImportReply{static_cast<int>(request.samples.size())});
}

void Broker::measure_link(const Caller &caller, const wire::MeasureRequest &request, Respond respond) {
    if (!caller.is_operator)
        return respond(
            Error{Errc::denied, "only operators of the broker may measure links: see [broker] operators"});
    if (request.from == request.to)
        return respond(Error{Errc::invalid, "a link has two ends: " + request.from + " stands twice"});
    const auto pair = probe::pair_of(request.from, request.to);
    links_.measure(pair, [this, pair, respond = std::move(respond)](Result<void> done) {
        if (!done) return respond(std::move(done).error());
        respond(wire::to_json(links_.view(reserved(), pair)));
    });
}

Result<Json> Broker::sites() const {
    wire::SitesView view;
    view.home = config_.home;
    const auto federation = sites_.snapshot();
    if (!federation) return Error{Errc::invalid, "no view of the sites yet"};
    for (const auto &site : federation->sites()) {
        wire::SiteView one;
        one.name = site.name;
        one.state = model::name(site.state);
        std::set<std::string> types;
        for (const auto &c : site.classes) {
            one.nodes += c.nodes;
            one.free_nodes += c.free_nodes;
            one.gpus += c.nodes * c.gpus_per_node;
            one.free_gpus += c.free_nodes * c.free_gpus_per_node;
            if (types.insert(c.gpu.name).second) one.gpu += (one.gpu.empty() ? "" : ",") + c.gpu.name;
        }
        one.seen_at = site.seen_at;
        one.stale = site.stale;
        one.trouble = site.trouble;
        one.api = sites_.lines().at(site.name).api->version();
        view.sites.push_back(std::move(one));
    }
    for (const auto &from : federation->sites())
        for (const auto &to : federation->sites())
            if (const auto link = federation->link(from.id, to.id))
                view.links.push_back({from.name, to.name, link->bandwidth_gbps, link->rtt_ms});
    return wire::to_json(view);
}

} // namespace spider::broker
