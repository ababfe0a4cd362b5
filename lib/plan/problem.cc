// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/problem.h"

#include "model/trainer.h"
#include "plan/cost.h"

#include <algorithm>

namespace spider::plan {

namespace {

constexpr int most_tp = 64;
constexpr double bytes_per_gigabit = 1e9 / 8;

bool named(const JobSpec &spec, const std::string &site) {
    return std::find(spec.sites.begin(), spec.sites.end(), site) != spec.sites.end();
}

} // namespace

Problem::Problem(const Federation &federation, const JobSpec &spec, const std::vector<Pool> &pools, int home)
    : federation_(federation), spec_(spec), home_(home) {
    for (const auto &pool : pools) {
        auto gpu = std::find(gpus_.begin(), gpus_.end(), pool.gpu);
        if (gpu == gpus_.end()) gpu = gpus_.insert(gpus_.end(), pool.gpu);
        const auto &site = federation.site(pool.site);
        const bool is_home = static_cast<int>(sites_.size()) == home;
        sites_.push_back(
            {.pool = pool,
             .gpu = static_cast<int>(gpu - gpus_.begin()),
             .routable = site.routable,
             .required = is_home || named(spec, pool.name),
             .lan_bandwidth = site.intra_gbps > 0 ? site.intra_gbps * bytes_per_gigabit : lan_bandwidth,
             .lan_latency = site.intra_gbps > 0 ? site.intra_rtt_ms / 2000 : lan_latency});
    }
    hops_.resize(sites_.size() * sites_.size());
    for (std::size_t i = 0; i < sites_.size(); ++i) {
        for (std::size_t j = 0; j < sites_.size(); ++j) {
            if (i == j || !sites_[i].routable || !sites_[j].routable) continue;
            const auto from = sites_[i].pool.site, to = sites_[j].pool.site;
            const auto link = federation.link(from, to);
            if (!link || !federation.link(to, from)) continue;
            auto &hop = hops_[i * sites_.size() + j];
            hop = {link->rtt_ms / 2000, 1 / (link->bandwidth_gbps * bytes_per_gigabit), 0};
            for (const int resource : federation.resources(from, to))
                hop.seconds_per_shared_byte =
                    std::max(hop.seconds_per_shared_byte, 1 / federation.capacity(resource));
        }
    }
    for (const auto &hop : hops_) {
        if (hop.latency >= no_way) continue;
        worst_.latency = std::max(worst_.latency, hop.latency);
        worst_.seconds_per_byte = std::max(worst_.seconds_per_byte, hop.seconds_per_byte);
        worst_.seconds_per_shared_byte =
            std::max(worst_.seconds_per_shared_byte, hop.seconds_per_shared_byte);
    }
    find_near();
    for (const int tp : tensor_sizes()) {
        workloads_.try_emplace(tp, spec, tp, gpus_);
        auto &slots = slots_[tp];
        for (const auto &site : sites_)
            slots.push_back(slots_in(site.pool, tp));
    }
}

void Problem::find_near() {
    constexpr double message = 1e7; // bytes: some layers' activations; only the order matters
    std::vector<std::pair<Seconds, int>> by_cost;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
        by_cost.clear();
        for (std::size_t j = 0; j < sites_.size(); ++j) {
            const auto &there = hops_[i * sites_.size() + j], &back = hops_[j * sites_.size() + i];
            if (i != j && there.latency < no_way)
                by_cost.emplace_back(there.latency + back.latency +
                                         message * (there.seconds_per_byte + back.seconds_per_byte),
                                     static_cast<int>(j));
        }
        const auto count = std::min(by_cost.size(), most_near);
        std::partial_sort(by_cost.begin(), by_cost.begin() + static_cast<std::ptrdiff_t>(count),
                          by_cost.end());
        auto &near = near_.emplace_back();
        for (std::size_t n = 0; n < count; ++n)
            near.push_back(by_cost[n].second);
    }
}

const Workload &Problem::workload(int tp) const { return workloads_.at(tp); }

int Problem::slots(int site, int tp) const { return slots_.at(tp)[static_cast<std::size_t>(site)]; }

// Sizes that divide the heads and some node of some site; powers of two unless the user says otherwise.
std::vector<int> Problem::tensor_sizes() const {
    std::vector<int> sizes;
    const auto usable = [&](int tp) {
        return trouble_with_tensor_size(spec_.model, tp).empty() &&
               std::any_of(sites_.begin(), sites_.end(),
                           [&](const Ground &site) { return slots_in(site.pool, tp) > 0; });
    };
    if (spec_.tp) return usable(*spec_.tp) ? std::vector{*spec_.tp} : sizes;
    for (int tp = 1; tp <= most_tp; tp *= 2)
        if (usable(tp)) sizes.push_back(tp);
    return sizes;
}

bool Problem::blocking_sends() const { return sends_of(spec_) == Sends::blocking; }

int Problem::depth_rule() const { return depth_of(spec_); }

Seconds Problem::local_ring(int site, int tp, Bytes bytes, int members) const {
    const auto &ground = sites_[static_cast<std::size_t>(site)];
    const bool one_node = ground.pool.nodes.front().gpus >= members * tp;
    return one_node ? ring_seconds(bytes, members, ground.pool.gpu.fabric * tp, lan_latency)
                    : ring_seconds(bytes, members, ground.lan_bandwidth, ground.lan_latency);
}

} // namespace spider::plan
