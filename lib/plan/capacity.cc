// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/capacity.h"

#include "model/json.h"

#include <algorithm>

namespace spider::plan {

namespace {

// A type that is in no table and not described by the site's configuration has no speed.
bool is_known(const GpuType &gpu) { return gpu.peak_flops > 0 && gpu.efficiency > 0 && gpu.memory > 0; }

int limited(int value, int limit) { return limit > 0 ? std::min(value, limit) : value; }

double speed(const Pool &pool) { return gpus_in(pool) * pool.gpu.peak_flops * pool.gpu.efficiency; }

Pool pool_of_type(const Site &site, const std::string &type, const Limits &limits) {
    Pool pool{
        .site = site.id, .name = site.name, .max_nodes = limits.max_nodes, .max_tasks = limits.max_tasks};
    for (const auto &nodes : site.classes) {
        if (nodes.gpu.name != type || !is_known(nodes.gpu)) continue;
        pool.gpu = nodes.gpu;
        const int gpus =
            limited(limited(nodes.free_gpus_per_node, limits.max_gpus_per_node), limits.max_tasks_per_node);
        if (gpus < 1) continue;
        pool.nodes.insert(pool.nodes.end(), static_cast<std::size_t>(std::max(nodes.free_nodes, 0)),
                          FreeNode{gpus, nodes.gpus_per_node});
    }
    std::stable_sort(pool.nodes.begin(), pool.nodes.end(),
                     [](const FreeNode &a, const FreeNode &b) { return a.gpus > b.gpus; });
    return pool;
}

} // namespace

Pool pool_of(const Site &site, const Limits &limits) {
    Pool best{.site = site.id, .name = site.name};
    for (const auto &nodes : site.classes) {
        auto pool = pool_of_type(site, nodes.gpu.name, limits);
        if (best.nodes.empty() || speed(pool) > speed(best)) best = std::move(pool);
    }
    return best;
}

Site as_of(Site site, Seconds after) {
    for (auto &nodes : site.classes) {
        for (const auto &later : nodes.later) {
            if (later.after > after) break;
            nodes.free_nodes = std::max(nodes.free_nodes, later.free_nodes);
            if (later.free_nodes > 0) nodes.free_gpus_per_node = nodes.gpus_per_node;
        }
    }
    return site;
}

std::string trouble_with(const Site &site) {
    if (site.state != SiteState::active) return "is in state " + std::string(name(site.state));
    if (site.stale) return "is stale" + (site.trouble.empty() ? std::string() : ": " + site.trouble);
    const bool known = std::any_of(site.classes.begin(), site.classes.end(),
                                   [](const NodeClass &nodes) { return is_known(nodes.gpu); });
    if (!known && !site.classes.empty())
        return "has only GPUs of a type that is not known: '" + site.classes.front().gpu.name + "'";
    return {};
}

std::vector<int> slots_by_node(const Pool &pool, int tp) {
    std::vector<int> slots;
    for (const auto &node : pool.nodes)
        if (node.of % tp == 0 && node.gpus >= tp) slots.push_back(node.gpus / tp);
    std::stable_sort(slots.begin(), slots.end(), std::greater<>());
    if (pool.max_nodes > 0 && slots.size() > static_cast<std::size_t>(pool.max_nodes))
        slots.resize(static_cast<std::size_t>(pool.max_nodes));
    return slots;
}

int slots_in(const Pool &pool, int tp) {
    const auto room = slots_by_node(pool, tp);
    std::int64_t most = 0;
    for (std::size_t n = 0; n < room.size(); ++n)
        most = std::max(most, static_cast<std::int64_t>(n + 1) * room[n]);
    const std::int64_t tasks = pool.max_tasks > 0 ? pool.max_tasks / tp : most;
    return static_cast<int>(std::min<std::int64_t>({most, tasks, 1'000'000'000}));
}

int gpus_in(const Pool &pool) { return slots_in(pool, 1); }

std::vector<int> spread(const Pool &pool, int tp, int slots) {
    const auto room = slots_by_node(pool, tp);
    if (slots < 1 || slots > slots_in(pool, tp)) return {};
    std::vector<int> fewest;
    for (std::size_t n = 1; n <= room.size() && n <= static_cast<std::size_t>(slots); ++n) {
        const int nodes = static_cast<int>(n), each = slots / nodes, more = slots % nodes;
        if (room[n - 1] < each + (more > 0 ? 1 : 0)) continue;
        if (more == 0) return std::vector<int>(n, each);
        if (!fewest.empty()) continue;
        fewest.assign(n, each);
        std::for_each_n(fewest.begin(), more, [](int &one) { ++one; });
    }
    return fewest;
}

std::string words(const Limits &limits) {
    std::string text;
    const auto add = [&](const char *option, int value) {
        if (value > 0) text += (text.empty() ? "" : " ") + std::string(option) + std::to_string(value);
    };
    add("--nodes=", limits.max_nodes);
    add("--gres=gpu:", limits.max_gpus_per_node);
    add("--ntasks=", limits.max_tasks);
    add("--ntasks-per-node=", limits.max_tasks_per_node);
    return text;
}

} // namespace spider::plan
