// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/planner.h"

#include "model/json.h"
#include "model/trainer.h"
#include "plan/baselines/baselines.h"
#include "plan/exhaustive.h"
#include "plan/spin.h"
#include "plan/workload.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

constexpr int most_micro_batches = 1'000'000; // each is followed through every stage

Error senseless(const std::string &why) { return {Errc::invalid, why}; }

std::string site_list(const Federation &federation) {
    std::vector<std::string> names;
    for (const auto &site : federation.sites())
        names.push_back(site.name);
    return util::join(names, ", ");
}

std::optional<Error> trouble_with_sites(const Federation &federation, const JobSpec &spec) {
    const auto unknown = [&](const std::string &what, const std::string &name) {
        return senseless(what + "unknown site '" + name + "'; sites: " + site_list(federation));
    };
    if (!spec.home.empty() && !federation.site(spec.home)) return unknown("home: ", spec.home);
    for (const auto &name : spec.sites) {
        if (!federation.site(name)) return unknown("sites: ", name);
        if (std::count(spec.sites.begin(), spec.sites.end(), name) > 1)
            return senseless("sites: " + name + " is named twice");
    }
    if (!spec.home.empty() && !spec.sites.empty() &&
        std::find(spec.sites.begin(), spec.sites.end(), spec.home) == spec.sites.end())
        return senseless("sites: the home site " + spec.home + " always takes part; use sites=" + spec.home +
                         "+" + util::join(spec.sites, "+"));
    return std::nullopt;
}

std::optional<Error> trouble_with_batch(const JobSpec &spec) {
    const auto whole = [](int value) { return std::to_string(value); };
    if (spec.sequence < 1 || spec.global_batch < 1 || spec.micro_batch < 1)
        return senseless("seq, gbs and mbs must be at least 1");
    if (spec.global_batch % spec.micro_batch != 0)
        return senseless("gbs=" + whole(spec.global_batch) +
                         " is not a multiple of mbs=" + whole(spec.micro_batch));
    const int batches = spec.global_batch / spec.micro_batch;
    if (batches > most_micro_batches)
        return senseless("gbs=" + whole(spec.global_batch) + ", mbs=" + whole(spec.micro_batch) +
                         ": more than " + whole(most_micro_batches) + " micro-batches in an iteration");
    if (spec.dp && *spec.dp >= 1 && batches % *spec.dp != 0)
        return senseless("gbs=" + whole(spec.global_batch) + " does not divide into dp=" + whole(*spec.dp) +
                         " pipelines of micro-batches of " + whole(spec.micro_batch));
    return std::nullopt;
}

std::optional<Error> trouble_with_shape(const JobSpec &spec) {
    const auto &model = spec.model;
    const auto sites = static_cast<int>(spec.sites.size());
    const auto number = [](int value) { return std::to_string(value); };
    if (model.layers < 1) return senseless("model: layers must be at least 1");
    if (!model.costs && (model.hidden < 1 || model.heads < 1 || model.kv_heads < 1 || model.head_dim < 1 ||
                         model.intermediate < 1 || model.vocab < 1))
        return senseless(
            "model: layers, hidden, heads, kv_heads, head_dim, intermediate and vocab must be at least 1");
    for (const auto &fixed : {spec.tp, spec.pp, spec.dp})
        if (fixed && *fixed < 1) return senseless("tp, pp and dp must be at least 1");
    if (spec.tp)
        if (auto trouble = trouble_with_tensor_size(model, *spec.tp); !trouble.empty())
            return senseless(trouble);
    if (spec.pp && *spec.pp > model.layers)
        return senseless("pp=" + number(*spec.pp) + " is more than the model's " + number(model.layers) +
                         " layers");
    const int pipelines = spec.dp.value_or(spec.global_batch / std::max(spec.micro_batch, 1));
    const auto most = std::int64_t{spec.pp.value_or(model.layers)} * std::max(pipelines, 1);
    if (sites > most)
        return senseless("pp=" + number(spec.pp.value_or(model.layers)) + " dp=" + number(pipelines) +
                         " leaves some of " + number(sites) + " sites without a stage");
    if (spec.pp && wants_even_layers(spec) && model.layers % *spec.pp != 0)
        return senseless("pp=" + number(*spec.pp) + " does not divide the model's " + number(model.layers) +
                         " layers" +
                         (spec.even_layers ? ", and layers=even wants it to"
                                           : ": trainer " + std::string(name(spec.trainer)) +
                                                 " has no flag for an uneven split; another pp, or "
                                                 "layers=free if your code can"));
    return std::nullopt;
}

std::optional<Error> trouble_with(const Federation &federation, const JobSpec &spec) {
    if (auto trouble = trouble_with_sites(federation, spec)) return trouble;
    if (auto trouble = trouble_with_shape(spec)) return trouble;
    return trouble_with_batch(spec);
}

} // namespace

const std::vector<Named> &planners() {
    static const std::vector<Named> all{
        {"spin", "SpinSearch between the sites, TPA inside them", spin},
        {"exhaustive", "every web of a small case", exhaustive},
        {"rank", "ranks in the order of the sites", rank_order},
        {"genetic", "the genetic search of DT-FM", genetic},
    };
    return all;
}

Result<Plan> make_plan(const Federation &federation, const JobSpec &spec, const Options &options,
                       std::string_view planner) {
    const auto &all = planners();
    const auto chosen = planner.empty() ? all.begin()
                                        : std::find_if(all.begin(), all.end(),
                                                       [&](const Named &one) { return one.name == planner; });
    if (chosen == all.end()) {
        std::vector<std::string> names;
        for (const auto &one : all)
            names.emplace_back(one.name);
        return senseless("unknown planner '" + std::string(planner) +
                         "'; planners: " + util::join(names, ", "));
    }
    if (auto trouble = trouble_with(federation, spec)) return std::move(*trouble);
    const util::SystemClock clock;
    const auto begin = clock.elapsed();
    auto plan = chosen->run(federation, spec, options);
    if (!plan) return plan;
    plan->search.seconds = clock.elapsed() - begin;
    if (plan->outcome == Outcome::planned)
        if (auto judged = check(federation, spec, *plan); !judged)
            return std::move(judged).error().within("planner " + std::string(chosen->name) + ": check");
    return plan;
}

} // namespace spider::plan
