// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/reason.h"

#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

bool forced(const JobSpec &spec) { return spec.sites.size() > 1; }

bool asked_for(const JobSpec &spec, const std::string &site) {
    return spec.sites.empty() || std::find(spec.sites.begin(), spec.sites.end(), site) != spec.sites.end();
}

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
std::string site_names(const Candidate &candidate) {
    constexpr std::size_t few = 4;
    std::vector<std::string> names;
    for (const auto &run : candidate.runs)
        names.push_back(run.pool->name);
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
std::string fullest_words(const Found &found) {
    std::string text;
    double fullest = -1;
    std::size_t stage = 0;
    for (const auto &run : found.candidate.runs) {
        for (int i = 0; i < run.stages; ++i, ++stage) {
            const double share = found.priced.memory[stage] / run.pool->gpu.memory;
            if (share <= fullest) continue;
            fullest = share;
            text = gigabytes(found.priced.memory[stage]) + " per GPU of " + gigabytes(run.pool->gpu.memory);
        }
    }
    return text;
}

const Found *smallest(const JobSpec &spec, const Enumeration &search) {
    const auto *several = search.several ? &*search.several : nullptr;
    if (forced(spec) || !search.single) return several;
    const auto *single = &*search.single;
    return several && several->candidate.gpus() < single->candidate.gpus() ? several : single;
}

std::string about_limits(const Federation &federation, const JobSpec &spec, std::int64_t max_evaluations) {
    auto without = spec;
    without.limits = {};
    const auto field = field_of(federation, without, without.limits);
    Enumeration search(federation, without, field.pools, field.home, Goal::fewest, max_evaluations);
    search.run();
    const auto *found = smallest(spec, search);
    if (!found) return {};
    const auto &candidate = found->candidate;
    const auto over = candidate.runs.size() > 1 ? " over " + site_names(candidate) : std::string();
    return words(spec.limits) + " leave " + gpus_words(field_of(federation, spec, spec.limits).pools) +
           "; the smallest plan for " + model_words(spec) + " needs " + std::to_string(candidate.gpus()) +
           " (" + shape_words(candidate.tp, candidate.pp(), candidate.dp) + over + " at " +
           fullest_words(*found) + ")";
}

bool fits_with_full_recompute(const Federation &federation, JobSpec spec, const Field &field,
                              std::int64_t max_evaluations) {
    if (spec.recompute == Recompute::full) return false;
    spec.recompute = Recompute::full;
    Enumeration search(federation, spec, field.pools, field.home, Goal::fewest, max_evaluations);
    search.run();
    return smallest(spec, search) != nullptr;
}

std::string about_memory(const Enumeration &search, bool recompute_helps) {
    std::vector<std::string> parts;
    for (const auto &[gpu, miss] : search.misses)
        parts.push_back(gpu + ": the smallest stage needs " + gigabytes(miss.needed) + " per GPU, has " +
                        gigabytes(miss.has) + " (" + shape_words(miss.tp, miss.pp, miss.dp) + ")");
    return util::join(parts, "; ") + (recompute_helps ? "; recompute=full would fit" : "");
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

std::string about_shape(const JobSpec &spec, const std::vector<Pool> &pools) {
    auto text = fixed_words(spec);
    if (spec.tp && spec.pp && spec.dp) {
        const auto needed = std::int64_t{*spec.tp} * *spec.pp * *spec.dp;
        text += " needs " + std::to_string(needed) + (needed == 1 ? " GPU" : " GPUs");
    } else {
        text = "no pipeline" + (text.empty() ? text : " with " + text) + " fits the sites";
    }
    if (forced(spec)) text += ", at least one stage at each of " + util::join(spec.sites, ", ");
    return text + "; free: " + gpus_words(pools);
}

} // namespace

Field field_of(const Federation &federation, const JobSpec &spec, const Limits &limits) {
    Field field;
    for (const auto &site : federation.sites()) {
        const bool home = site.name == spec.home;
        if (!asked_for(spec, site.name)) continue;
        auto pool = pool_of(site, limits);
        auto trouble = trouble_with(site);
        if (trouble.empty() && pool.nodes.empty()) trouble = "has no free GPU";
        if (trouble.empty()) {
            if (home) field.home = static_cast<int>(field.pools.size());
            field.pools.push_back(std::move(pool));
        } else if (home || !spec.sites.empty()) {
            if (field.trouble.empty())
                field.trouble = (home ? "home site " : "site ") + site.name + " " + trouble;
        }
    }
    if (field.trouble.empty() && field.pools.empty()) field.trouble = "no site has a free GPU";
    return field;
}

std::string why_planned(const JobSpec &spec, const Enumeration &search, bool several) {
    const auto &single = search.single, &many = search.several;
    const auto alone = (spec.home.empty() ? "one site" : "home") + std::string(" alone");
    const auto faster = [](const Found &slow, const Found &fast) {
        const double ratio = slow.priced.iteration.seconds / fast.priced.iteration.seconds;
        return ratio >= 10 ? std::to_string(static_cast<long long>(ratio)) + " times" : percent(ratio - 1);
    };
    if (!several) {
        const auto who = spec.home.empty() ? site_names(single->candidate) + " alone" : alone;
        if (spec.sites.size() == 1) return who + ", as asked";
        if (!many) return who + ": no plan over several sites exists";
        return who + ": " + faster(*many, *single) + " faster than the best plan over " +
               count(static_cast<int>(many->candidate.runs.size()), "site");
    }
    const auto who = site_names(many->candidate) + (forced(spec) ? ", as asked" : "");
    if (!single)
        return who + ": nothing fits " + alone +
               (fixed_words(spec).empty() ? "" : " with " + fixed_words(spec));
    if (many->priced.iteration.seconds <= single->priced.iteration.seconds)
        return who + ": " + faster(*single, *many) + " faster than " + alone;
    return who + ": " + faster(*many, *single) + " slower than " + alone;
}

std::string why_infeasible(const Federation &federation, const JobSpec &spec, std::int64_t max_evaluations) {
    const auto field = field_of(federation, spec, spec.limits);
    if (!field.trouble.empty()) return field.trouble;
    if (auto links = about_links(federation, spec, field.pools); !links.empty()) return links;
    if (!words(spec.limits).empty())
        if (auto limits = about_limits(federation, spec, max_evaluations); !limits.empty()) return limits;
    Enumeration search(federation, spec, field.pools, field.home, Goal::fewest, max_evaluations);
    search.run();
    if (search.misses.empty() || (forced(spec) && search.single)) return about_shape(spec, field.pools);
    return about_memory(search, fits_with_full_recompute(federation, spec, field, max_evaluations));
}

} // namespace spider::plan
