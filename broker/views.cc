// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: what callers get to see.
#include "broker/broker.h"

#include "broker/output_path.h"
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

wire::JobView view_of(const coalloc::Job &job, bool with_plan) {
    wire::JobView view;
    view.id = job.id;
    view.user = job.user;
    view.name = job.name;
    view.state = coalloc::name(job.state);
    view.reason = job.reason;
    view.attempt = job.attempt;
    view.submitted = job.submitted;
    view.line = plan::summary(job.plan);
    if (with_plan) view.plan = job.plan;
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &record = job.parts[i];
        const auto size = launch::size_of(job.plan, job.plan.parts[i]);
        int slots = 0;
        for (const auto &node : job.plan.parts[i].nodes)
            slots += static_cast<int>(node.size());
        view.parts.push_back(
            {.site = record.site,
             .job = record.job,
             .state =
                 record.slurm_state.empty() ? std::string(coalloc::name(record.state)) : record.slurm_state,
             .nodes = size.nodes,
             .gpus = slots * job.plan.tp,
             .stages = stages_of(job.plan.parts[i]),
             .output = output_path(record.output, job, record),
             .error = output_path(record.error.empty() ? record.output : record.error, job, record)});
    }
    for (const auto &line : job.history)
        view.history.push_back({line.at, std::string(coalloc::name(line.state)), line.why});
    return view;
}

} // namespace

Result<Json> Broker::show(const Caller &caller, const std::string &id) const {
    const auto found = jobs_.find(id);
    if (found == jobs_.end() || (found->second.uid != caller.uid && !caller.is_operator))
        return Error{Errc::not_found, "no job " + id + " of yours"};
    return wire::to_json(view_of(found->second, true));
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
        list.jobs.push_back(view_of(*job, false));
    return wire::to_json(list);
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
