// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/spec_options.h"

#include "cli/common.h"
#include "util/text.h"

#include <algorithm>
#include <array>

namespace spider::cli {
namespace {

struct SpecOption {
    const char *key;
    const char *value;
    const char *what;
};

constexpr std::array spec_options{
    SpecOption{"model", "FILE", "the model: a Hugging Face config.json or spiderflow-model(5)"},
    SpecOption{"gbs", "N", "sequences per iteration (global batch)"},
    SpecOption{"mbs", "N", "sequences per micro-batch"},
    SpecOption{"seq", "N", "tokens per sequence"},
    SpecOption{"iterations", "N", "iterations of the whole training"},
    SpecOption{"trainer", "NAME", "plain, megatron, torchtitan, deepspeed, nanotron or torchrun"},
    SpecOption{"launcher", "NAME", "srun (a task for each GPU) or torchrun (one for each node)"},
    SpecOption{"layers", "KIND", "even (as many in each stage) or free"},
    SpecOption{"precision", "TYPE", "bf16, fp16 or fp32"},
    SpecOption{"recompute", "KIND", "auto, none, selective or full"},
    SpecOption{"objective", "KIND", "jct or throughput"},
    SpecOption{"depth", "KIND", "micro-batches in flight: stages, fitted or a number"},
    SpecOption{"sends", "KIND", "async or blocking"},
    SpecOption{"sites", "A,B", "use exactly these sites"},
    SpecOption{"tp", "N", "fix the tensor-parallel size"},
    SpecOption{"pp", "N", "fix the number of pipeline stages"},
    SpecOption{"dp", "N", "fix the data-parallel size"},
};

bool is_pairs(std::string_view spec) { return spec.find('=') != std::string_view::npos; }

std::string key_of(std::string_view pair) { return std::string(util::trim(pair.substr(0, pair.find('=')))); }

} // namespace

void add_spec_options(CLI::App &command, SpecKeys &given) {
    for (const auto &option : spec_options) {
        const std::string key = option.key;
        command
            .add_option_function<std::string>(
                "--" + key, [&given, key](const std::string &value) { given[key] = value; }, option.what)
            ->option_text(option.value)
            ->group("Job (keys of SPEC)");
    }
}

Result<SpecText> compose(std::string_view spec, const SpecKeys &given, std::string_view environment) {
    std::vector<std::string> pairs;
    if (is_pairs(spec))
        for (const auto &pair : util::split(spec, ','))
            if (!given.contains(key_of(pair))) pairs.push_back(pair);
    for (const auto &[key, value] : given) {
        auto text = value;
        if (key == "sites") std::replace(text.begin(), text.end(), ',', '+');
        if (text.find(',') != std::string::npos)
            return Error{Errc::invalid, "--" + key + "=" + value + ": a comma cannot be part of a value"};
        pairs.push_back(key + "=" + text);
    }
    const bool file = !spec.empty() && !is_pairs(spec);
    if (file && pairs.empty()) return SpecText{std::string(spec), std::string(environment)};
    return SpecText{util::join(pairs, ","), std::string(file ? spec : environment)};
}

std::string spec_defaults() {
    const auto defaults = environment_value("SLURM_SPIDERFLOW");
    return defaults == "off" ? "" : defaults;
}

} // namespace spider::cli
