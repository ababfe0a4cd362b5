// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/plan_of.h"

#include "model/trainer.h"

#include <algorithm>
#include <set>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// In the order of their parts: the home site first, then by the first stage there.
std::vector<int> sites_of(const Problem &problem, const Web &web) {
    std::vector<int> sites;
    if (problem.home() >= 0) sites.push_back(problem.home());
    for (int i = 0; i < web.shape.stages; ++i)
        for (int g = 0; g < web.shape.groups; ++g)
            if (std::find(sites.begin(), sites.end(), web.at(g, i)) == sites.end())
                sites.push_back(web.at(g, i));
    return sites;
}

// torchrun numbers the ranks of a node one after the other: a node ends where they do not go on. Empty: too
// few nodes.
std::vector<int> consecutive(const Pool &pool, const Web &web, const std::vector<Slot> &slots) {
    const auto number = [&](const Slot &slot) { return slot.stage * web.shape.dp() + slot.dp; };
    const auto room = slots_by_node(pool, web.shape.tp);
    std::vector<int> runs, counts;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (i == 0 || number(slots[i]) != number(slots[i - 1]) + 1) runs.push_back(0);
        ++runs.back();
    }
    for (int each = room.empty() ? 0 : room.front(); each > 0; --each) { // slots of the fullest node
        counts.clear();
        for (const int run : runs)
            for (int left = run; left > 0; left -= each)
                counts.push_back(std::min(left, each));
        if (counts.size() <= room.size() && room[counts.size() - 1] >= each) return counts;
    }
    return {};
}

std::vector<int> counts_of(const Problem &problem, const Web &web, const Pool &pool,
                           const std::vector<Slot> &slots) {
    return launcher_of(problem.spec()) == Launcher::torchrun
               ? consecutive(pool, web, slots)
               : spread(pool, web.shape.tp, static_cast<int>(slots.size()));
}

// Slots in order of stage, then member, over as few nodes as hold them.
Part part_at(const Problem &problem, const Web &web, int site) {
    const auto &pool = problem.sites()[index(site)].pool;
    std::vector<Slot> slots;
    for (int i = 0; i < web.shape.stages; ++i)
        for (int g = 0; g < web.shape.groups; ++g)
            for (int m = 0; m < web.shape.width && web.at(g, i) == site; ++m)
                slots.push_back({i, g * web.shape.width + m});
    Part part{.site = pool.name, .gpu = pool.gpu.name, .nodes = {}};
    auto next = slots.begin();
    for (const int count : counts_of(problem, web, pool, slots)) {
        part.nodes.emplace_back(next, next + count);
        next += count;
    }
    return part;
}

Stage stage_of(const Problem &problem, const Web &web, const Priced &priced, int stage, int first) {
    const auto i = index(stage);
    Stage made{.first_layer = first,
               .last_layer = first + web.layers[i] - 1,
               .depth = priced.depths[i],
               .memory = priced.memory[i],
               .gradient = priced.gradients[i],
               .ring = {},
               .faster = {}};
    for (const auto &pipeline : priced.pipelines)
        if (pipeline.stages[i].both() > made.forward + made.backward)
            made.forward = pipeline.stages[i].forward, made.backward = pipeline.stages[i].backward;
    for (int d = 0; d < web.shape.dp(); ++d) {
        const auto &own = priced.pipelines[index(d / web.shape.width)].stages[i];
        if (own.both() < made.forward + made.backward) made.faster.push_back({d, own.forward, own.backward});
    }
    for (const int site : priced.rings[i])
        made.ring.push_back(problem.sites()[index(site)].pool.name);
    return made;
}

// Directed pairs of sites between which messages or gradients go.
std::set<std::pair<int, int>> crossings_of(const Web &web, const Priced &priced) {
    std::set<std::pair<int, int>> pairs;
    for (int g = 0; g < web.shape.groups; ++g)
        for (int i = 0; i + 1 < web.shape.stages; ++i) {
            pairs.emplace(web.at(g, i), web.at(g, i + 1));
            pairs.emplace(web.at(g, i + 1), web.at(g, i));
        }
    for (const auto &ring : priced.rings)
        for (std::size_t n = 0; n < ring.size(); ++n)
            pairs.emplace(ring[n], ring[(n + 1) % ring.size()]);
    std::erase_if(pairs, [](const auto &pair) { return pair.first == pair.second; });
    return pairs;
}

// Those that it sends on, then those that carry much less than usual: whoever wonders why it goes another
// way.
std::vector<LinkUse> links_of(const Problem &problem, const Web &web, const Priced &priced) {
    constexpr double much_less = 0.5;
    const auto &federation = problem.federation();
    const auto use = [&](const Link &link, const federation::Origin *origin, bool used) {
        LinkUse made{.from = federation.site(link.from).name,
                     .to = federation.site(link.to).name,
                     .gbps = link.bandwidth_gbps,
                     .rtt_ms = link.rtt_ms,
                     .source = {},
                     .used = used};
        if (origin == nullptr) return made;
        made.source = origin->source;
        made.measured_at = origin->measured_at;
        made.usual_gbps = origin->usual_gbps;
        return made;
    };
    std::vector<LinkUse> links;
    std::set<std::pair<SiteId, SiteId>> used;
    for (const auto &[from, to] : crossings_of(web, priced)) {
        const auto a = problem.sites()[index(from)].pool.site, b = problem.sites()[index(to)].pool.site;
        const auto link = federation.link(a, b);
        if (link) links.push_back(use(*link, federation.origin(a, b), true));
        used.emplace(a, b);
    }
    if (federation.network().origins.empty()) return links;
    for (const auto &link : federation.links()) {
        const auto *origin = federation.origin(link.from, link.to);
        if (origin != nullptr && link.bandwidth_gbps < much_less * origin->usual_gbps &&
            !used.contains({link.from, link.to}))
            links.push_back(use(link, origin, false));
    }
    return links;
}

} // namespace

std::vector<std::string> site_names(const Problem &problem, const Web &web) {
    std::vector<std::string> names;
    for (const int site : sites_of(problem, web))
        names.push_back(problem.sites()[index(site)].pool.name);
    return names;
}

Plan plan_of(const Problem &problem, const Web &web, const Priced &priced) {
    const auto &spec = problem.spec();
    Plan plan{.outcome = Outcome::planned,
              .reason = {},
              .tp = web.shape.tp,
              .pp = web.shape.stages,
              .dp = web.shape.dp(),
              .micro_batch = spec.micro_batch,
              .micro_batches = problem.micro_batches(web.shape.dp()),
              .recompute = spec.recompute,
              .sends = problem.blocking_sends() ? Sends::blocking : Sends::async,
              .sequence = spec.sequence,
              .trainer = spec.trainer,
              .launcher = launcher_of(spec),
              .single_gpu_view = spec.single_gpu_view,
              .family = {},
              .iteration = priced.iteration,
              .stages = {},
              .passages = {},
              .links = links_of(problem, web, priced),
              .parts = {},
              .alternatives = {},
              .search = {}};
    plan.iteration.tokens_per_second =
        static_cast<double>(spec.global_batch) * spec.sequence / plan.iteration.seconds;
    int first = 0;
    for (int i = 0; i < web.shape.stages; ++i) {
        plan.stages.push_back(stage_of(problem, web, priced, i, first));
        first += web.layers[index(i)];
        for (int d = 0; d < web.shape.dp() && i + 1 < web.shape.stages; ++d) {
            const auto &link = priced.pipelines[index(d / web.shape.width)].boundaries[index(i)];
            plan.passages.push_back(
                {i, d, link.latency, link.occupancy, link.back_latency, link.back_occupancy});
        }
    }
    for (const int site : sites_of(problem, web))
        plan.parts.push_back(part_at(problem, web, site));
    return plan;
}

bool can_be_launched(const Problem &problem, const Web &web) {
    if (launcher_of(problem.spec()) != Launcher::torchrun) return true;
    const auto sites = sites_of(problem, web);
    return std::all_of(sites.begin(), sites.end(),
                       [&](int site) { return !part_at(problem, web, site).nodes.empty(); });
}

} // namespace spider::plan
