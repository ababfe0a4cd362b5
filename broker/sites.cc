// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/sites.h"

#include "broker/token.h"
#include "model/gpu_table.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/text.h"

#include <algorithm>
#include <tuple>

namespace spider::broker {
namespace {

constexpr Seconds poll_timeout = 5; // a dead slurmctld blocks slurmrestd for ~20 s: do not wait for that

// The GPUs of a node that count: the type it has most of.
const slurm::GpuCount *main_gpus(const slurm::NodeView &node) {
    const auto most = std::max_element(node.gpus.begin(), node.gpus.end(),
                                       [](const auto &a, const auto &b) { return a.count < b.count; });
    return most == node.gpus.end() || most->count == 0 ? nullptr : &*most;
}

bool in_partition(const slurm::NodeView &node, const std::string &partition) {
    return partition.empty() ||
           std::find(node.partitions.begin(), node.partitions.end(), partition) != node.partitions.end();
}

// Nodes alike in type, GPUs and free GPUs form a class.
std::vector<NodeClass> classes_of(const SiteLine &line, const std::string &partition, bool only_free,
                                  std::string &trouble) {
    std::map<std::tuple<std::string, int, int>, int> counted;
    // A partition that no node names is left to the site, which refuses it in its own words.
    const bool known_partition = std::any_of(line.nodes.begin(), line.nodes.end(),
                                             [&](const auto &node) { return in_partition(node, partition); });
    for (const auto &node : line.nodes) {
        const auto *gpus = main_gpus(node);
        if (gpus == nullptr || !node.usable || (known_partition && !in_partition(node, partition))) continue;
        const int free = only_free ? (node.free_now ? gpus->count - gpus->used : 0) : gpus->count;
        ++counted[{gpus->type.empty() ? line.config.gpu : gpus->type, gpus->count, std::max(free, 0)}];
    }
    std::vector<NodeClass> classes;
    for (const auto &[key, nodes] : counted) {
        const auto &[type, gpus, free] = key;
        auto known = model::gpu_type_named(line.config.gpu.empty() ? type : line.config.gpu);
        if (!known) {
            trouble =
                "GPU type '" + type + "' is not known: set gpu = \"…\" for this site in spiderflow.conf";
            continue;
        }
        known->name = type;
        classes.push_back({*known, nodes, free > 0 ? nodes : 0, gpus, free});
    }
    return classes;
}

// Nobody looks at the nodes of an INACTIVE site.
bool looked_at(const SiteConfig &site) { return site.state != SiteState::inactive; }

void take_settings(SiteLine &line, const SiteConfig &site) {
    if (!looked_at(site) || !looked_at(line.config)) line.trouble.clear();
    if (!looked_at(line.config)) line.seen_at = 0; // the old view is too old
    line.config = site;
    line.due = 0;
    if (!line.api) line.api = slurm::make_api(slurm::known_versions().front());
}

void keep_without_settings(SiteLine &line) {
    constexpr std::string_view why =
        "no longer in spiderflow.conf; its parts of live jobs are still followed";
    if (line.trouble == why) return; // said at an earlier reload
    line.config.state = SiteState::inactive;
    line.trouble = why;
    util::log_warning("site " + line.config.name + ": " + line.trouble +
                      "; it stays as INACTIVE, with its old settings, until a reload finds none");
}

} // namespace

void Sites::configure(const Config &config, const std::set<std::string> &needed) {
    std::map<std::string, SiteLine> lines;
    for (const auto &site : config.sites) {
        SiteLine line;
        if (auto old = lines_.extract(site.name); !old.empty() && old.mapped().config.url == site.url)
            line = std::move(old.mapped());
        take_settings(line, site);
        lines.emplace(site.name, std::move(line));
    }
    for (auto &[name, line] : lines_) {
        if (needed.count(name) == 0) continue;
        keep_without_settings(line);
        lines.emplace(name, std::move(line));
    }
    lines_ = std::move(lines);
    poll_nodes_ = config.poll_nodes;
    renew_snapshot();
}

void Sites::know(std::vector<NamedLink> links, Reserved reserved) {
    if (links == links_ && reserved == reserved_) return;
    links_ = std::move(links);
    reserved_ = std::move(reserved);
    renew_snapshot();
}

// Settings or a view have changed; whoever holds the old snapshot keeps it.
void Sites::renew_snapshot() {
    auto fresh = federation("", true);
    if (fresh)
        snapshot_ = std::make_shared<const Federation>(std::move(*fresh));
    else
        util::log_error(fresh.error().what);
}

SiteLine *Sites::line(const std::string &name) {
    const auto found = lines_.find(name);
    return found == lines_.end() ? nullptr : &found->second;
}

void Sites::call(const std::string &site, const std::string &user, const slurm::Call &call, Seconds timeout,
                 Answer done) {
    auto *line = this->line(site);
    if (line == nullptr) return done(Error{Errc::not_found, "site " + site + ": not in spiderflow.conf"});
    ++line->requests;
    auto token = token_for(*line);
    if (!token) {
        ++line->failures;
        return done(std::move(token).error().within("site " + site));
    }
    http_.start(slurm::to_request({site, line->config.url, user, *token}, call, timeout),
                [this, site, done = std::move(done)](Result<slurm::Reply> reply) {
                    auto *asked = this->line(site);
                    if (asked != nullptr && (!reply || reply->status >= 400)) ++asked->failures;
                    done(std::move(reply));
                });
}

// Slurm 22.05 says of an expired token what it says of a dead slurmctld, so it is not asked. What is no JWT
// it may judge itself.
Result<std::string> Sites::token_for(SiteLine &line) const {
    auto token = util::read_secret(line.config.token_file);
    if (!token) return std::move(token).error().within("token");
    const auto expiry = expiry_of(*token);
    line.token_expires = expiry ? *expiry : 0;
    if (line.token_expires > 0 && line.token_expires <= clock_.now())
        return Error{Errc::denied, "its token has expired at " + util::local_time(line.token_expires) +
                                       ": put a new one into " + line.config.token_file};
    return token;
}

void Sites::tick() {
    for (auto &[name, line] : lines_)
        if (looked_at(line.config) && !line.polling && clock_.elapsed() >= line.due)
            poll(line, poll_timeout, [] {});
}

void Sites::poll(SiteLine &line, Seconds timeout, std::function<void()> done) {
    line.polling = true;
    line.due = clock_.elapsed() + poll_nodes_;
    const auto name = line.config.name;
    call(name, line.config.token_user, line.api->nodes(), timeout,
         [this, name, done](Result<slurm::Reply> reply) {
             if (auto *still = this->line(name)) { // it may have left the configuration meanwhile
                 still->polling = false;
                 if (looked_at(still->config)) take(*still, std::move(reply));
             }
             done();
         });
}

void Sites::take(SiteLine &line, Result<slurm::Reply> reply) {
    auto nodes =
        reply ? line.api->read_nodes(*reply) : Result<std::vector<slurm::NodeView>>(std::move(reply).error());
    if (nodes) {
        line.nodes = std::move(*nodes);
        line.seen_at = clock_.now();
    }
    auto trouble = nodes ? std::string() : nodes.error().what;
    if (const auto itself = "site " + line.config.name + ": "; trouble.starts_with(itself))
        trouble.erase(0, itself.size()); // whoever shows it names the site
    note(line, trouble);
    renew_snapshot();
}

// Says once what went wrong and once that it is over; the old view stays, marked stale.
void Sites::note(SiteLine &line, const std::string &trouble) {
    if (line.trouble == trouble) return;
    if (trouble.empty())
        util::log_info("site " + line.config.name + ": answers again");
    else
        util::log_warning("site " + line.config.name + ": " + trouble +
                          "; keeping the old view, marked stale");
    line.trouble = trouble;
}

void Sites::refresh(Seconds fresh, Seconds longest, std::function<void()> done) {
    auto waiting = std::make_shared<int>(1);
    const auto one_done = [waiting, done = std::move(done)] {
        if (--*waiting == 0) done();
    };
    for (auto &[name, line] : lines_) {
        if (!looked_at(line.config)) continue;
        if (clock_.now() - line.seen_at < fresh && line.trouble.empty()) continue;
        ++*waiting;
        poll(line, longest, one_done);
    }
    one_done();
}

Result<Federation> Sites::federation(const std::string &partition, bool only_free,
                                     const std::vector<std::string> &left_out) const {
    std::vector<Site> sites;
    std::map<std::string, SiteId> ids;
    for (const auto &[name, line] : lines_) {
        const auto there =
            partition.empty() ? line.config.partition : mapped(line.config.partitions, partition);
        Site site;
        site.id = SiteId{static_cast<int>(sites.size())};
        site.name = name;
        const bool waiting = looked_at(line.config) && line.seen_at == 0 && line.trouble.empty();
        site.trouble = waiting ? "not polled yet" : line.trouble;
        site.stale = looked_at(line.config) && !site.trouble.empty();
        site.classes = classes_of(line, there, only_free, site.trouble);
        const bool left = std::find(left_out.begin(), left_out.end(), name) != left_out.end();
        site.state = left ? SiteState::inactive : line.config.state;
        site.routable = line.config.routable;
        site.seen_at = line.seen_at;
        ids[name] = site.id;
        sites.push_back(std::move(site));
    }
    std::vector<Link> links;
    federation::Network network;
    for (const auto &link : links_) {
        if (!ids.contains(link.from) || !ids.contains(link.to)) continue;
        const auto from = ids[link.from], to = ids[link.to];
        links.push_back({from, to, link.gbps, link.rtt_ms, link.streams});
        network.origins.push_back({from, to, link.source, link.measured_at, link.usual_gbps});
    }
    for (const auto &[ends, gbps] : reserved_)
        if (ids.contains(ends.first) && ids.contains(ends.second))
            network.reserved.push_back({ids[ends.first], ids[ends.second], gbps});
    return Federation::make(std::move(sites), std::move(links), std::move(network));
}

std::string Sites::gres_type(const std::string &site, const std::string &gpu) const {
    const auto found = lines_.find(site);
    if (found == lines_.end()) return {};
    for (const auto &node : found->second.nodes)
        for (const auto &count : node.gpus)
            if (count.type == gpu) return gpu;
    return {};
}

} // namespace spider::broker
