// SPDX-License-Identifier: GPL-3.0-or-later
// The judge: reads the plan, the job and the federation, and nothing of how the plan was found. Only the
// memory model is shared, since what a stage needs is a fact about the model and not about the search.
#include "model/trainer.h"
#include "plan/capacity.h"
#include "plan/planner.h"
#include "plan/words.h"
#include "plan/workload.h"

#include <algorithm>
#include <set>

namespace spider::plan {

namespace {

using Verdict = std::optional<Error>;

Error broken(const std::string &rule) { return {Errc::invalid, rule}; }
std::string text(int number) { return std::to_string(number); }

constexpr std::int64_t most_slots = 10'000'000;

struct Case {
    const Federation &federation;
    const JobSpec &spec;
    const Plan &plan;
    std::vector<const Part *>
        part_of_slot; // stage by stage, member by member; filled by slots_are_complete()
    [[nodiscard]] const Part &part(int stage, int dp) const {
        return *part_of_slot[static_cast<std::size_t>(stage * plan.dp + dp)];
    }
};

Verdict shape_is_sane(Case &it) {
    const auto &[federation, spec, plan, parts] = it;
    if (plan.outcome != Outcome::planned) return broken("the outcome is not 'planned'");
    if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1) return broken("tp, pp and dp must be at least 1");
    if (static_cast<std::size_t>(plan.pp) != plan.stages.size())
        return broken("pp=" + text(plan.pp) + " but " + std::to_string(plan.stages.size()) + " stages");
    const auto differs = [](const std::optional<int> &fixed, int value) { return fixed && *fixed != value; };
    if (differs(spec.tp, plan.tp) || differs(spec.pp, plan.pp) || differs(spec.dp, plan.dp))
        return broken("tp, pp or dp is not what the job fixes");
    if (plan.recompute != spec.recompute && !spec.recompute_free) return broken("recompute is not the job's");
    if (plan.trainer != spec.trainer || plan.launcher != launcher_of(spec) ||
        plan.sequence != spec.sequence || plan.single_gpu_view != spec.single_gpu_view)
        return broken("trainer, launcher, sequence or single_gpu_view is not the job's");
    return std::nullopt;
}

Verdict batch_divides(Case &it) {
    const auto &plan = it.plan;
    if (plan.micro_batch != it.spec.micro_batch || plan.micro_batches < 1)
        return broken("the micro-batch is not the job's");
    const double product = 1.0 * plan.micro_batch * plan.micro_batches * plan.dp; // as int64 it may overflow
    if (product != it.spec.global_batch)
        return broken("micro-batch x micro-batches x dp is " + decimal(product, 0) +
                      ", not the global batch " + text(it.spec.global_batch));
    return std::nullopt;
}

Verdict layers_are_complete(Case &it) {
    int next = 0;
    for (std::size_t i = 0; i < it.plan.stages.size(); ++i) {
        const auto &stage = it.plan.stages[i];
        const auto name = "stage " + std::to_string(i);
        if (stage.first_layer != next) return broken(name + " does not begin at layer " + text(next));
        if (stage.last_layer < stage.first_layer) return broken(name + " has no layer");
        if (stage.last_layer >= it.spec.model.layers)
            return broken(name + " ends after the model's last layer");
        next = stage.last_layer + 1;
    }
    if (next != it.spec.model.layers)
        return broken("the stages hold " + text(next) + " layers, the model has " +
                      text(it.spec.model.layers));
    for (const auto &stage : it.plan.stages)
        if (wants_even_layers(it.spec) && (stage.last_layer - stage.first_layer + 1) * it.plan.pp != next)
            return broken("the stages do not hold the same number of layers");
    return std::nullopt;
}

Verdict depths_are_sane(Case &it) {
    int before = it.plan.micro_batches;
    for (std::size_t i = 0; i < it.plan.stages.size(); ++i) {
        const int depth = it.plan.stages[i].depth;
        if (depth < 1 || depth > before)
            return broken("stage " + std::to_string(i) + " has depth " + text(depth) +
                          ", not between 1 and " + text(before));
        before = depth;
    }
    return std::nullopt;
}

Verdict sites_are_the_jobs(Case &it) {
    std::set<std::string> named;
    for (const auto &part : it.plan.parts) {
        const auto *site = it.federation.site(part.site);
        if (!site) return broken("part at unknown site " + part.site);
        if (!named.insert(part.site).second) return broken("two parts at site " + part.site);
        if (site->state != SiteState::active || site->stale)
            return broken("site " + part.site + " is not usable");
        if (!site->routable && it.plan.parts.size() > 1)
            return broken("site " + part.site + " is not routable, the plan has other sites");
    }
    const auto &spec = it.spec;
    if (it.plan.parts.empty()) return broken("no part");
    if (!spec.home.empty() && it.plan.parts.front().site != spec.home)
        return broken("the first part is not at the home site " + spec.home);
    if (!spec.sites.empty() && named != std::set<std::string>(spec.sites.begin(), spec.sites.end()))
        return broken("the parts are not at exactly the sites that the job names");
    return std::nullopt;
}

Verdict slots_are_complete(Case &it) {
    const auto wanted = static_cast<std::int64_t>(it.plan.pp) * it.plan.dp;
    if (wanted > most_slots) return broken("pp x dp is " + std::to_string(wanted));
    it.part_of_slot.assign(static_cast<std::size_t>(wanted), nullptr);
    std::int64_t seen = 0;
    for (const auto &part : it.plan.parts) {
        for (const auto &node : part.nodes) {
            if (node.empty()) return broken("an empty node at site " + part.site);
            for (const auto &slot : node) {
                const auto name = "slot " + text(slot.stage) + "." + text(slot.dp);
                if (slot.stage < 0 || slot.stage >= it.plan.pp || slot.dp < 0 || slot.dp >= it.plan.dp)
                    return broken(name + " is outside of pp and dp");
                auto &owner = it.part_of_slot[static_cast<std::size_t>(slot.stage * it.plan.dp + slot.dp)];
                if (owner) return broken(name + " is there twice");
                owner = &part, ++seen;
            }
        }
    }
    if (seen != wanted) return broken(std::to_string(seen) + " slots, pp x dp is " + std::to_string(wanted));
    return std::nullopt;
}

// The fullest nodes first onto the nodes with the most free GPUs: if that fails, nothing fits.
Verdict slots_fit(const Case &it, const Part &part, const Site &site) {
    std::vector<int> free;
    for (const auto &nodes : site.classes)
        if (nodes.gpu.name == part.gpu && nodes.gpus_per_node % it.plan.tp == 0)
            free.insert(free.end(), static_cast<std::size_t>(std::max(nodes.free_nodes, 0)),
                        nodes.free_gpus_per_node);
    std::vector<std::int64_t> needed;
    for (const auto &node : part.nodes)
        needed.push_back(static_cast<std::int64_t>(node.size()) * it.plan.tp);
    std::sort(free.rbegin(), free.rend());
    std::sort(needed.rbegin(), needed.rend());
    if (!needed.empty())
        std::fill(needed.begin(), needed.end(), needed.front()); // Slurm: the same on each node
    if (needed.size() > free.size())
        return broken("site " + part.site + ": " + std::to_string(needed.size()) + " nodes, free are " +
                      std::to_string(free.size()) + " with " + part.gpu + " that tp=" + text(it.plan.tp) +
                      " divides");
    for (std::size_t i = 0; i < needed.size(); ++i)
        if (needed[i] > free[i])
            return broken("site " + part.site + ": a node with " + std::to_string(needed[i]) +
                          " GPUs, free are " + text(free[i]));
    return std::nullopt;
}

Verdict limits_are_kept(const Case &it, const Part &part) {
    std::int64_t tasks = 0, fullest = 0;
    for (const auto &node : part.nodes) {
        const auto here = static_cast<std::int64_t>(node.size()) * it.plan.tp;
        tasks += here;
        fullest = std::max(fullest, here);
    }
    const auto limits = limits_of(it.spec);
    const auto beyond = [](std::int64_t value, int limit) { return limit > 0 && value > limit; };
    if (beyond(static_cast<std::int64_t>(part.nodes.size()), limits.max_nodes) ||
        beyond(tasks, limits.max_tasks) || beyond(fullest, limits.max_gpus_per_node) ||
        beyond(fullest, limits.max_tasks_per_node))
        return broken("site " + part.site + ": the part is beyond the user's own limits");
    return std::nullopt;
}

Verdict parts_fit(Case &it) {
    for (const auto &part : it.plan.parts) {
        if (part.nodes.empty()) return broken("site " + part.site + " has no node");
        if (auto verdict = slots_fit(it, part, as_of(*it.federation.site(part.site), it.plan.start)))
            return verdict;
        if (auto verdict = limits_are_kept(it, part)) return verdict;
    }
    return std::nullopt;
}

// What torchrun takes for granted.
Verdict ranks_are_consecutive(Case &it) {
    if (it.plan.launcher != Launcher::torchrun) return std::nullopt;
    for (const auto &part : it.plan.parts)
        for (const auto &node : part.nodes)
            for (std::size_t i = 1; i < node.size(); ++i)
                if (rank_of(it.plan, node[i], 0) != rank_of(it.plan, node[i - 1], 0) + it.plan.tp)
                    return broken("site " + part.site +
                                  ": a node's ranks are not consecutive, as torchrun would number them");
    return std::nullopt;
}

Verdict tensor_size_divides(Case &it) {
    const auto trouble = trouble_with_tensor_size(it.spec.model, it.plan.tp);
    return trouble.empty() ? Verdict() : broken(trouble);
}

Verdict links_exist(Case &it) {
    const auto crosses = [&](const std::string &what, const Part &a, const Part &b) -> Verdict {
        const auto &from = *it.federation.site(a.site), &to = *it.federation.site(b.site);
        if (from.id == to.id) return std::nullopt;
        if (it.federation.link(from.id, to.id) && it.federation.link(to.id, from.id)) return std::nullopt;
        return broken(what + ": no link in both directions between " + from.name + " and " + to.name);
    };
    for (int d = 0; d < it.plan.dp; ++d) {
        for (int i = 1; i < it.plan.pp; ++i)
            if (auto verdict =
                    crosses("stages " + text(i - 1) + " and " + text(i) + " of pipeline " + text(d),
                            it.part(i - 1, d), it.part(i, d)))
                return verdict;
        if (it.spec.model.tied_embeddings)
            if (auto verdict = crosses("tied embeddings", it.part(0, d), it.part(it.plan.pp - 1, d)))
                return verdict;
    }
    return std::nullopt;
}

// A stage's ring goes through exactly the sites of its members, over links that exist.
Verdict rings_are_closed(Case &it) {
    for (int i = 0; i < it.plan.pp && it.plan.dp > 1; ++i) {
        std::set<std::string> members;
        for (int d = 0; d < it.plan.dp; ++d)
            members.insert(it.part(i, d).site);
        if (members.size() < 2) continue;
        const auto &ring = it.plan.stages[static_cast<std::size_t>(i)].ring;
        if (ring.size() != members.size() || std::set<std::string>(ring.begin(), ring.end()) != members)
            return broken("stage " + text(i) + ": its ring does not go through the sites of its members");
        for (std::size_t n = 0; n < ring.size(); ++n) {
            const auto *from = it.federation.site(ring[n]),
                       *to = it.federation.site(ring[(n + 1) % ring.size()]);
            if (!it.federation.link(from->id, to->id) || !it.federation.link(to->id, from->id))
                return broken("stage " + text(i) + ": its ring has no link in both directions between " +
                              from->name + " and " + to->name);
        }
    }
    return std::nullopt;
}

Verdict memory_fits(Case &it) {
    auto spec = it.spec;
    spec.recompute = it.plan.recompute;
    const Workload workload(spec, it.plan.tp, {});
    for (int i = 0; i < it.plan.pp; ++i) {
        const auto &stage = it.plan.stages[static_cast<std::size_t>(i)];
        const auto needed = workload.memory(stage.first_layer, stage.last_layer, stage.depth, it.plan.dp);
        for (int d = 0; d < it.plan.dp; ++d) {
            const auto &part = it.part(i, d);
            for (const auto &nodes : it.federation.site(part.site)->classes)
                if (nodes.gpu.name == part.gpu && needed > nodes.gpu.memory * (1 + 1e-9))
                    return broken("stage " + text(i) + " needs " + gigabytes(needed) + " per GPU, " +
                                  part.gpu + " at " + part.site + " has " + gigabytes(nodes.gpu.memory));
        }
    }
    return std::nullopt;
}

} // namespace

Result<void> check(const Federation &federation, const JobSpec &spec, const Plan &plan) {
    Case it{federation, spec, plan, {}};
    // In this order: later rules rely on earlier ones.
    for (const auto rule : {shape_is_sane, batch_divides, layers_are_complete, depths_are_sane,
                            sites_are_the_jobs, slots_are_complete, parts_fit, ranks_are_consecutive,
                            tensor_size_divides, links_exist, rings_are_closed, memory_fits})
        if (auto verdict = rule(it)) return std::move(*verdict);
    return {};
}

} // namespace spider::plan
