// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/spec.h"

#include "model/model_file.h"
#include "model/spec_source.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace spider::model {

namespace {

constexpr std::string_view option_place = "--spiderflow";
constexpr std::string_view variable_place = "SLURM_SPIDERFLOW";

// A setter gives "" or what it expected.
using Setter = std::string (*)(JobSpec &, const std::string &);
struct Key {
    std::string_view name;
    Setter set;
};

std::string set_count(int &target, const std::string &text) {
    const auto value = util::to_int(text);
    if (!value || *value < 1 || *value > 1'000'000'000) return "expected a whole number of at least 1";
    target = static_cast<int>(*value);
    return "";
}

std::string set_count(std::optional<int> &target, const std::string &text) {
    int value = 0;
    auto trouble = set_count(value, text);
    if (trouble.empty()) target = value;
    return trouble;
}

template <class T, class U>
std::string set_word(T &target, std::optional<U> value, std::string_view words) {
    if (!value) return "expected " + std::string(words);
    target = *value;
    return "";
}

std::string set_sites(JobSpec &spec, const std::string &text) {
    spec.sites = util::split(text, '+');
    for (const auto &site : spec.sites) {
        if (site.empty()) return "expected names with '+' between them";
        if (std::count(spec.sites.begin(), spec.sites.end(), site) > 1) return site + " is named twice";
    }
    return "";
}

std::string set_sync(JobSpec &spec, const std::string &text) {
    if (text == "every") return "";
    spec.sync = text;
    if (text.starts_with("diloco:") && util::to_int(std::string_view(text).substr(7)).value_or(0) > 0)
        return "not in this version; only sync=every";
    return "expected every or diloco:H";
}

std::string set_depth(JobSpec &spec, const std::string &text) {
    if (text == "stages" || text == "fitted") {
        spec.depth = text == "stages" ? depth_stages : depth_fitted;
        return "";
    }
    return set_count(spec.depth, text).empty() ? ""
                                               : "expected stages, fitted or a whole number of at least 1";
}

std::string set_flag(bool &target, const std::string &text) {
    target = text == "yes" || text == "true"; // as TOML and JSON files write it
    return target || text == "no" || text == "false" ? "" : "expected yes or no";
}

std::string set_layers(JobSpec &spec, const std::string &text) {
    spec.even_layers = text == "even";
    return text == "even" || text == "free" ? "" : "expected even or free";
}

// They are unpacked below the working directory of another site, and must not leave it.
std::string set_travelling(JobSpec &spec, const std::string &text) {
    spec.travelling = util::split(text, '+');
    for (const auto &path : spec.travelling) {
        const auto steps = util::split(path, '/');
        if (path.empty() || path.front() == '/' || std::count(steps.begin(), steps.end(), "..") > 0)
            return "expected paths below the working directory with '+' between them";
    }
    return "";
}

std::string set_recompute(JobSpec &spec, const std::string &text) {
    spec.recompute_free = text == "auto";
    if (spec.recompute_free) return "";
    return set_word(spec.recompute, recompute_named(text), "auto, none, selective or full");
}

std::string set_checking(JobSpec &spec, const std::string &text) {
    auto said = set_word(spec.check_links, link_checking_named(text), "no, warn or replan");
    if (said.empty() && spec.check_links == LinkChecking::replan) spec.on_failure = OnFailure::replan;
    return said;
}

std::string set_check_factor(JobSpec &spec, const std::string &text) {
    const auto value = util::to_double(text);
    if (!value || *value <= 1 || *value > 100) return "expected a number above 1, at most 100";
    spec.check_factor = *value;
    return {};
}

constexpr std::array keys{
    Key{"model",
        [](JobSpec &spec, const std::string &text) {
            spec.model_name = text;
            return std::string(text.empty() ? "expected the path of a Hugging Face config.json" : "");
        }},
    Key{"seq", [](JobSpec &spec, const std::string &text) { return set_count(spec.sequence, text); }},
    Key{"gbs", [](JobSpec &spec, const std::string &text) { return set_count(spec.global_batch, text); }},
    Key{"mbs", [](JobSpec &spec, const std::string &text) { return set_count(spec.micro_batch, text); }},
    Key{"iterations",
        [](JobSpec &spec, const std::string &text) { return set_count(spec.iterations, text); }},
    Key{"trainer",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.trainer, trainer_named(text),
                            "plain, megatron, torchtitan, deepspeed, nanotron or torchrun");
        }},
    Key{"launcher",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.launcher, launcher_named(text), "srun or torchrun");
        }},
    Key{"layers", set_layers},
    Key{"stage", set_travelling},
    Key{"single_gpu_view",
        [](JobSpec &spec, const std::string &text) { return set_flag(spec.single_gpu_view, text); }},
    Key{"sites", set_sites},
    Key{"precision",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.precision, precision_named(text), "bf16, fp16 or fp32");
        }},
    Key{"sync", set_sync},
    Key{"on_failure",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.on_failure, on_failure_named(text), "cancel, retry or replan");
        }},
    Key{"check_links", set_checking},
    Key{"check_factor", set_check_factor},
    Key{"attempts", [](JobSpec &spec, const std::string &text) { return set_count(spec.attempts, text); }},
    Key{"tp", [](JobSpec &spec, const std::string &text) { return set_count(spec.tp, text); }},
    Key{"pp", [](JobSpec &spec, const std::string &text) { return set_count(spec.pp, text); }},
    Key{"dp", [](JobSpec &spec, const std::string &text) { return set_count(spec.dp, text); }},
    Key{"recompute", set_recompute},
    Key{"objective",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.objective, objective_named(text), "jct or throughput");
        }},
    Key{"depth", set_depth},
    Key{"sends",
        [](JobSpec &spec, const std::string &text) {
            return set_word(spec.sends, sends_named(text), "async or blocking");
        }},
};

// Levenshtein's distance of two short words.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        auto corner = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const auto change = corner + (a[i] == b[j] ? 0 : 1);
            corner = row[j + 1];
            row[j + 1] = std::min({change, row[j] + 1, corner + 1});
        }
    }
    return row.back();
}

std::string unknown_key(const std::string &key) {
    std::vector<std::string> names;
    std::string_view nearest;
    std::size_t least = 3;
    for (const auto &known : keys) {
        names.emplace_back(known.name);
        const auto far = distance(std::string_view(key).substr(0, 64), known.name);
        if (far < least) nearest = known.name, least = far;
    }
    const auto hint = nearest.empty() ? "" : " (did you mean '" + std::string(nearest) + "'?)";
    return "unknown key '" + key + "'" + hint + "; keys: " + util::join(names, ", ");
}

Result<void> apply(JobSpec &spec, const std::vector<Setting> &settings) {
    for (const auto &setting : settings) {
        const auto key = std::find_if(keys.begin(), keys.end(),
                                      [&](const Key &known) { return known.name == setting.key; });
        if (key == keys.end()) return Error{Errc::invalid, setting.place + ": " + unknown_key(setting.key)};
        const auto trouble = key->set(spec, setting.value);
        if (!trouble.empty())
            return Error{Errc::invalid,
                         setting.place + ": " + setting.key + "=" + setting.value + ": " + trouble};
    }
    return {};
}

Error about_model(const JobSpec &spec, const std::string &why) {
    return {Errc::invalid, std::string(option_place) + ": model=" + spec.model_name + ": " + why};
}

Result<void> read_model(JobSpec &spec, const std::string &directory) {
    auto file = read_model_file(resolved(spec.model_name, directory));
    if (!file) return about_model(spec, file.error().what);
    spec.model = std::move(file->model);
    if (spec.sequence == 0) spec.sequence = file->sequence;
    if (spec.model.positions > 0 && spec.sequence > spec.model.positions)
        return Error{Errc::invalid, std::string(option_place) + ": seq=" + std::to_string(spec.sequence) +
                                        ": the model has " + std::to_string(spec.model.positions) +
                                        " positions"};
    return {};
}

Error missing(std::string_view what) {
    return {Errc::invalid, std::string(option_place) + ": " + std::string(what)};
}

} // namespace

Result<JobSpec> read_spec(std::string_view text, std::string_view defaults, const std::string &directory) {
    if (util::trim(text) == "off") return missing("'off' turns the option off; there is nothing to plan");
    if (util::trim(defaults) == "off") defaults = "";
    JobSpec spec;
    spec.recompute_free = true; // unless a key says otherwise
    const auto below = read_settings(defaults, variable_place, directory);
    if (!below) return below.error();
    const auto above = read_settings(text, option_place, directory);
    if (!above) return above.error();
    for (const auto *settings : {&*below, &*above})
        if (auto applied = apply(spec, *settings); !applied) return std::move(applied).error();
    if (spec.model_name.empty()) return missing("no model; give model=PATH of a Hugging Face config.json");
    if (spec.global_batch == 0) return missing("no gbs; give gbs=N, the sequences of one iteration");
    if (spec.global_batch % spec.micro_batch != 0)
        return missing("gbs=" + std::to_string(spec.global_batch) +
                       " is not a multiple of mbs=" + std::to_string(spec.micro_batch));
    if (spec.check_links == LinkChecking::replan && spec.on_failure != OnFailure::replan)
        return missing("check_links=replan needs on_failure=replan, which is then the default");
    if (auto model = read_model(spec, directory); !model) return std::move(model).error();
    return spec;
}

Result<void> check_spec_syntax(std::string_view text) {
    if (util::trim(text) == "off") return {};
    const auto settings = split_settings(text, option_place);
    if (!settings) return settings.error();
    JobSpec ignored;
    return apply(ignored, *settings);
}

} // namespace spider::model
