// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/reason.h"

#include "model/trainer.h"
#include "plan/plan_of.h"
#include "plan/smallest.h"
#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

bool forced(const JobSpec &spec) { return spec.sites.size() > 1; }

// "models/llama-13b.json" and "llama-13b/config.json" are both llama-13b.
std::string model_words(const JobSpec &spec) {
    std::string_view name = spec.model_name;
    for (const std::string_view ending : {"/config.json", ".json", "/"})
        if (name.ends_with(ending) && name.size() > ending.size()) name.remove_suffix(ending.size());
    if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
    return name.empty() ? "the model" : std::string(name);
}

std::string shape_words(int tp, int pp, int dp) {
    return "tp=" + std::to_string(tp) + " pp=" + std::to_string(pp) + " dp=" + std::to_string(dp);
}

// "s1+s2"; many sites only as a number.
std::string sites_words(const Problem &problem, const Web &web) {
    constexpr std::size_t few = 4;
    const auto names = site_names(problem, web);
    return names.size() > few ? std::to_string(names.size()) + " sites" : util::join(names, "+");
}

// "1 GPU at each site", "4 GPUs at s1, 2 GPUs at s2".
std::string gpus_words(const std::vector<Pool> &pools) {
    const bool alike = std::all_of(pools.begin(), pools.end(),
                                   [&](const Pool &pool) { return gpus_in(pool) == gpus_in(pools.front()); });
    if (alike && pools.size() > 1) return count(gpus_in(pools.front()), "GPU") + " at each site";
    std::vector<std::string> parts;
    for (const auto &pool : pools)
        parts.push_back(count(gpus_in(pool), "GPU") + " at " + pool.name);
    return util::join(parts, ", ");
}

// The stage that fills its GPU most: "78.1 GB per GPU of 80.0 GB".
std::string fullest_words(const Problem &problem, const Found &found) {
    std::string text;
    double fullest = -1;
    for (int i = 0; i < found.web.shape.stages; ++i) {
        for (int g = 0; g < found.web.shape.groups; ++g) {
            const auto has = problem.sites()[static_cast<std::size_t>(found.web.at(g, i))].pool.gpu.memory;
            const auto needed = found.priced.memory[static_cast<std::size_t>(i)];
            if (needed / has <= fullest) continue;
            fullest = needed / has;
            text = gigabytes(needed) + " per GPU of " + gigabytes(has);
        }
    }
    return text;
}

std::string about_limits(const Federation &federation, const JobSpec &spec) {
    auto without = spec;
    without.limits = {};
    const auto field = field_of(federation, without, without.limits);
    if (!field.trouble.empty()) return {};
    const Problem problem(federation, without, field.pools, field.home);
    const auto found = smallest(problem);
    if (!found) return {};
    const auto &shape = found->web.shape;
    const auto over =
        family_of(found->web) == Family::alone ? std::string() : " over " + sites_words(problem, found->web);
    return words(spec.limits) + " leave " + gpus_words(field_of(federation, spec, limits_of(spec)).pools) +
           "; the smallest plan for " + model_words(spec) + " needs " +
           std::to_string(shape.tp * shape.stages * shape.dp()) + " (" +
           shape_words(shape.tp, shape.stages, shape.dp()) + over + " at " + fullest_words(problem, *found) +
           ")";
}

bool fits_with_full_recompute(const Federation &federation, JobSpec spec, const Field &field) {
    if (spec.recompute == Recompute::full) return false;
    spec.recompute = Recompute::full;
    return smallest(Problem(federation, spec, field.pools, field.home)).has_value();
}

std::string about_memory(const std::vector<Miss> &misses, bool recompute_helps) {
    std::vector<std::string> parts;
    for (const auto &miss : misses)
        parts.push_back(miss.gpu + ": the smallest stage needs " + gigabytes(miss.needed) + " per GPU, has " +
                        gigabytes(miss.has) + " (" +
                        shape_words(miss.shape.tp, miss.shape.stages, miss.shape.dp()) + ", stage " +
                        std::to_string(miss.stage) + " lacks " + gigabytes(miss.needed - miss.has) + ")");
    return util::join(parts, "; ") + (recompute_helps ? "; recompute=full would fit" : "");
}

// Only the micro-batches that the trainer's schedule keeps do not fit; "" when that is not it.
std::string about_depths(const Federation &federation, const JobSpec &spec, const Field &field) {
    if (!traits_of(spec.trainer).rigid || depth_of(spec) != depth_stages) return {};
    auto told = spec; // a trainer that could be told less
    told.even_layers = wants_even_layers(spec), told.sends = sends_of(spec);
    told.depth = depth_stages, told.trainer = Trainer::plain;
    if (!smallest(Problem(federation, told, field.pools, field.home))) return {};
    return "trainer " + std::string(name(spec.trainer)) +
           " keeps P-i micro-batches in flight at stage i, and no plan has memory for them; use a smaller "
           "mbs, "
           "recompute=full, more GPUs, or a trainer that can be told the depths";
}

// What keeps the given sites apart; "" when nothing does.
std::string about_links(const Federation &federation, const JobSpec &spec, const std::vector<Pool> &pools) {
    if (!forced(spec)) return {};
    for (const auto &pool : pools)
        if (!federation.site(pool.site).routable)
            return "site " + pool.name + " is not routable: it cannot take part in a plan over several sites";
    for (const auto &pool : pools) {
        const bool alone = std::none_of(pools.begin(), pools.end(), [&](const Pool &other) {
            return federation.link(pool.site, other.site) && federation.link(other.site, pool.site);
        });
        if (!alone) continue;
        std::vector<std::string> others;
        for (const auto &other : pools)
            if (other.name != pool.name) others.push_back(other.name);
        return "no link in both directions between " + pool.name + " and " + util::join(others, " or ");
    }
    return {};
}

std::string fixed_words(const JobSpec &spec) {
    std::string text;
    const auto add = [&](const char *key, const std::optional<int> &value) {
        if (value) text += (text.empty() ? "" : " ") + std::string(key) + std::to_string(*value);
    };
    add("tp=", spec.tp);
    add("pp=", spec.pp);
    add("dp=", spec.dp);
    return text;
}

// Why GPUs that are free are not taken.
std::string about_nodes(const JobSpec &spec, const std::vector<Pool> &pools) {
    std::string text;
    for (const auto &pool : pools) {
        if (!spec.tp || pool.nodes.empty() || slots_in(pool, *spec.tp) > 0) continue;
        const int of = pool.nodes.front().of;
        text += "; " + pool.name + ": tp=" + std::to_string(*spec.tp) +
                (of < *spec.tp ? " is more than the " : " does not divide the ") + std::to_string(of) +
                (of == 1 ? " GPU" : " GPUs") + " of a node";
    }
    return text;
}

std::string about_shape(const JobSpec &spec, const std::vector<Pool> &pools) {
    auto text = fixed_words(spec);
    if (spec.tp && spec.pp && spec.dp) {
        const auto needed = std::int64_t{*spec.tp} * *spec.pp * *spec.dp;
        text += " needs " + std::to_string(needed) + (needed == 1 ? " GPU" : " GPUs");
    } else {
        text = "no pipeline" + (text.empty() ? text : " with " + text) + " fits the sites";
    }
    if (forced(spec)) text += ", at least one stage at each of " + util::join(spec.sites, ", ");
    return text + "; free: " + gpus_words(pools) + about_nodes(spec, pools);
}

} // namespace

std::string why_planned(const Problem &problem, const Found *alone, const Found *over, bool several) {
    const auto &spec = problem.spec();
    const auto faster = [](const Found &slow, const Found &fast) {
        const double ratio = slow.seconds() / fast.seconds();
        return ratio >= 10 ? std::to_string(static_cast<long long>(ratio)) + " times" : percent(ratio - 1);
    };
    const auto one = (spec.home.empty() ? "one site" : "home") + std::string(" alone");
    if (!several) {
        const auto who = spec.home.empty() ? sites_words(problem, alone->web) + " alone" : one;
        if (spec.sites.size() == 1) return who + ", as asked";
        if (!over) return who + ": no plan over several sites exists";
        return who + ": " + faster(*over, *alone) + " faster than the best plan over " +
               count(static_cast<int>(site_names(problem, over->web).size()), "site");
    }
    const auto who = sites_words(problem, over->web) + (forced(spec) ? ", as asked" : "");
    if (!alone)
        return who + ": nothing fits " + one +
               (fixed_words(spec).empty() ? "" : " with " + fixed_words(spec));
    if (over->seconds() <= alone->seconds())
        return who + ": " + faster(*alone, *over) + " faster than " + one;
    return who + ": " + faster(*over, *alone) + " slower than " + one;
}

std::string why_infeasible(const Federation &federation, const JobSpec &spec) {
    const auto field = field_of(federation, spec, limits_of(spec));
    if (!field.trouble.empty()) return field.trouble;
    if (auto links = about_links(federation, spec, field.pools); !links.empty()) return links;
    if (!words(spec.limits).empty())
        if (auto limits = about_limits(federation, spec); !limits.empty()) return limits;
    const Problem problem(federation, spec, field.pools, field.home);
    const auto near = misses(problem);
    if (near.empty()) {
        const auto depths = about_depths(federation, spec, field);
        return depths.empty() ? about_shape(spec, field.pools) : depths;
    }
    return about_memory(near, fits_with_full_recompute(federation, spec, field));
}

} // namespace spider::plan
