// SPDX-License-Identifier: GPL-3.0-or-later
#include "wire/limits.h"

#include "util/text.h"

#include <algorithm>

namespace spider::wire {
namespace {

using util::to_int;

std::optional<int> count(std::string_view text) {
    const auto value = to_int(text);
    if (!value || *value <= 0 || *value > 1'000'000) return std::nullopt;
    return static_cast<int>(*value);
}

Error bad(std::string_view option, std::string_view value, std::string_view expected) {
    return {Errc::invalid,
            "--" + std::string(option) + "=" + std::string(value) + ": expected " + std::string(expected)};
}

// "4", "2-4", "2,4,8": the largest. sbatch takes k and m as units too.
std::optional<int> largest_nodes(std::string_view text) {
    int largest = 0;
    for (const auto &choice : util::split(text, ',')) {
        auto last = std::string_view(choice);
        if (const auto dash = last.rfind('-'); dash != std::string_view::npos) last.remove_prefix(dash + 1);
        if (const auto colon = last.find(':'); colon != std::string_view::npos) last = last.substr(0, colon);
        std::string digits(last);
        if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'K'))
            digits.replace(digits.size() - 1, 1, "000");
        const auto value = count(digits);
        if (!value) return std::nullopt;
        largest = std::max(largest, *value);
    }
    return largest > 0 ? std::optional(largest) : std::nullopt;
}

// One entry of a gres list: "gpu", "gpu:2", "gpu:a100:2", "gres:gpu:2", "gres/gpu:a100:2(S:0)". 0: no GPUs in
// it.
std::optional<int> gpus_of(std::string_view entry) {
    for (const std::string_view prefix : {"gres:", "gres/"})
        if (entry.starts_with(prefix)) entry.remove_prefix(prefix.size());
    entry = entry.substr(0, entry.find('('));
    auto words = util::split(entry, ':');
    for (std::size_t at = words.size(); at-- > 0;) // "gpu=2" is TRES's own spelling
        if (const auto equal = words[at].find('='); equal != std::string::npos) {
            words.insert(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words[at].substr(equal + 1));
            words[at].resize(equal);
        }
    if (words.empty() || words[0] != "gpu") return 0;
    if (words.size() == 1) return 1;
    if (const auto value = count(words.back())) return value;
    if (words.back() == "0") return 0;
    return words.size() == 2 && to_int(words[1]) == std::nullopt ? std::optional(1)
                                                                 : std::nullopt; // "gpu:a100"
}

Result<int> gres_gpus(std::string_view option, const std::string &text, std::string_view prefix) {
    int sum = 0;
    for (const auto &entry : util::split(text, ',')) {
        const auto gpus = gpus_of(std::string(prefix) + entry);
        if (!gpus) return bad(option, text, "a list of NAME[:TYPE]:COUNT");
        sum += *gpus;
    }
    return sum;
}

} // namespace

Result<Limits> limits_of(const Names &options) {
    Limits limits;
    struct Row {
        std::string_view option;
        int Limits::*limit;
    };
    for (const auto &row :
         {Row{"ntasks", &Limits::max_tasks}, Row{"ntasks-per-node", &Limits::max_tasks_per_node}}) {
        const auto given = options.find(row.option);
        if (given == options.end()) continue;
        const auto value = count(given->second);
        if (!value) return bad(row.option, given->second, "a number above 0");
        limits.*row.limit = *value;
    }
    if (const auto nodes = options.find("nodes"); nodes != options.end()) {
        const auto value = largest_nodes(nodes->second);
        if (!value) return bad("nodes", nodes->second, "MIN[-MAX]");
        limits.max_nodes = *value;
    }
    for (const auto &[option, prefix] : {std::pair("gres", ""), std::pair("gpus-per-node", "gpu:")}) {
        const auto given = options.find(option);
        if (given == options.end()) continue;
        const auto gpus = gres_gpus(option, given->second, prefix);
        if (!gpus) return gpus.error();
        auto &limit = limits.max_gpus_per_node;
        if (*gpus > 0) limit = limit == 0 ? *gpus : std::min(limit, *gpus);
    }
    return limits;
}

} // namespace spider::wire
