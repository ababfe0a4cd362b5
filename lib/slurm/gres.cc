// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/gres.h"

#include "util/text.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace spider::slurm {
namespace {

// Splits at commas outside parentheses: "(IDX:0,3)" is one piece.
std::vector<std::string_view> entries(std::string_view text) {
    std::vector<std::string_view> found;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const char c = i < text.size() ? text[i] : ',';
        if (c == '(') ++depth;
        if (c == ')' && depth > 0) --depth;
        if (i < text.size() && (c != ',' || depth > 0)) continue;
        found.push_back(util::trim(text.substr(begin, i - begin)));
        begin = i + 1;
    }
    return found;
}

// "8", or with Slurm's binary suffix "2K".
std::optional<int> count_of(std::string_view text) {
    std::int64_t factor = 1;
    if (!text.empty()) {
        const auto power = std::string_view("KMG").find(text.back());
        if (power != std::string_view::npos) {
            factor = std::int64_t{1} << (10 * (power + 1));
            text.remove_suffix(1);
        }
    }
    const auto number = util::to_int(text);
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max() / factor) return {};
    return static_cast<int>(*number * factor);
}

bool take_prefix(std::string_view &text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

// "gpu", "gpu:4", "gpu:h100", "gpu:h100:4", each with or without "(S:0-1)" behind and "gres:" in front.
std::optional<GpuCount> gpu_entry(std::string_view entry) {
    if (!take_prefix(entry, "gres/")) take_prefix(entry, "gres:");
    if (!take_prefix(entry, "gpu")) return {};
    if (take_prefix(entry, ":(null)") && entry.empty()) return {}; // a type that the site left out
    if (const auto suffix = entry.find('('); suffix != entry.npos) entry = entry.substr(0, suffix);
    if (entry.empty()) return GpuCount{"", 1, 0};
    if (!take_prefix(entry, ":")) return {}; // "gpuram:80G" is no GPU
    const auto colon = entry.rfind(':');
    const auto last = colon == entry.npos ? entry : entry.substr(colon + 1);
    const auto count = count_of(last);
    if (colon != entry.npos)
        return count ? std::optional(GpuCount{std::string(entry.substr(0, colon)), *count, 0}) : std::nullopt;
    if (count) return GpuCount{"", *count, 0};
    return GpuCount{std::string(entry), 1, 0};
}

GpuCount &of_type(std::vector<GpuCount> &gpus, const std::string &type) {
    const auto found =
        std::find_if(gpus.begin(), gpus.end(), [&](const GpuCount &gpu) { return gpu.type == type; });
    return found != gpus.end() ? *found : gpus.emplace_back(GpuCount{type, 0, 0});
}

// "cpu=4,gres/gpu=4,gres/gpu:h100=3": all GPUs in use, 0 when it names none.
int gpus_of_tres(std::string_view tres) {
    int total = 0;
    int typed = 0;
    for (auto entry : entries(tres)) {
        if (!take_prefix(entry, "gres/gpu")) continue;
        const auto equals = entry.find('=');
        if (equals == entry.npos) continue;
        const int count = count_of(entry.substr(equals + 1)).value_or(0);
        (equals == 0 ? total : typed) += count;
    }
    return std::max(total, typed);
}

int use(GpuCount &gpu, int wanted) {
    const int taken = std::min(wanted, gpu.count - gpu.used);
    gpu.used += taken;
    return wanted - taken;
}

} // namespace

std::vector<GpuCount> read_gpus(std::string_view gres) {
    std::vector<GpuCount> gpus;
    for (const auto entry : entries(gres))
        if (const auto gpu = gpu_entry(entry)) of_type(gpus, gpu->type).count += gpu->count;
    return gpus;
}

void count_used(std::vector<GpuCount> &gpus, std::string_view gres_used, std::string_view tres_used) {
    int nameless = 0;
    int total = 0;
    for (const GpuCount &busy : read_gpus(gres_used)) {
        total += busy.count;
        const auto found = std::find_if(gpus.begin(), gpus.end(),
                                        [&](const GpuCount &gpu) { return gpu.type == busy.type; });
        nameless += found == gpus.end() ? busy.count : use(*found, busy.count);
    }
    nameless += std::max(0, gpus_of_tres(tres_used) - total);
    for (GpuCount &gpu : gpus)
        nameless = use(gpu, nameless);
}

} // namespace spider::slurm
