// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/summary.h"

#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

struct Share {
    int slots = 0;
    int first_stage = -1, last_stage = -1;
};

Share share_of(const Part &part) {
    Share share;
    for (const auto &node : part.nodes) {
        for (const auto &slot : node) {
            ++share.slots;
            if (share.first_stage < 0 || slot.stage < share.first_stage) share.first_stage = slot.stage;
            share.last_stage = std::max(share.last_stage, slot.stage);
        }
    }
    return share;
}

std::string range(int first, int last) {
    return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

std::string layers_of(const Plan &plan, int first_stage, int last_stage) {
    const auto stages = static_cast<int>(plan.stages.size());
    if (first_stage < 0 || last_stage >= stages) return "?";
    const int first = plan.stages[static_cast<std::size_t>(first_stage)].first_layer;
    const int last = plan.stages[static_cast<std::size_t>(last_stage)].last_layer;
    return range(first, last);
}

std::string part_words(const Plan &plan, const Part &part) {
    const auto share = share_of(part);
    return part.site + " (" + count(static_cast<int>(part.nodes.size()), "node") + ", " +
           count(share.slots * plan.tp, "GPU") + ", layers " +
           layers_of(plan, share.first_stage, share.last_stage) + ")";
}

// How much slower the plan can be than the best possible one.
std::string bound_words(const Iteration &iteration) {
    if (iteration.bound <= 0) return "no bound";
    const double ratio = iteration.seconds / iteration.bound;
    // The bound knows no forced sites: a small model that must cross a WAN is far above it.
    if (ratio >= 10) return std::to_string(static_cast<long long>(ratio)) + " times the bound";
    return "at most " + percent(ratio - 1) + " above the bound";
}

std::string bottleneck_words(const Bottleneck &bottleneck) {
    if (bottleneck.kind == "link") return "link " + bottleneck.from + " -> " + bottleneck.to;
    if (bottleneck.kind == "stage") return "stage " + bottleneck.from;
    return bottleneck.kind;
}

// Columns as wide as their widest cell, text to the left, numbers to the right.
std::string columns(const std::vector<std::vector<std::string>> &rows) {
    std::vector<std::size_t> widths;
    for (const auto &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto &row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string pad(widths[i] - row[i].size(), ' ');
            text += i == 0 ? row[i] + pad : "  " + pad + row[i];
        }
        text += '\n';
    }
    return text;
}

std::string stage_rows(const Plan &plan) {
    std::vector<std::string> site_of(plan.stages.size());
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                if (slot.stage >= 0 && static_cast<std::size_t>(slot.stage) < site_of.size())
                    site_of[static_cast<std::size_t>(slot.stage)] = part.site;
    std::vector<std::vector<std::string>> rows{
        {"stage", "site", "layers", "depth", "forward", "backward", "memory per GPU"}};
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto &stage = plan.stages[i];
        rows.push_back({std::to_string(i), site_of[i], range(stage.first_layer, stage.last_layer),
                        std::to_string(stage.depth), seconds_words(stage.forward),
                        seconds_words(stage.backward), gigabytes(stage.memory)});
    }
    return columns(rows);
}

std::string site_rows(const Plan &plan) {
    std::vector<std::vector<std::string>> rows{{"site", "nodes", "GPUs", "type", "stages", "layers"}};
    for (const auto &part : plan.parts) {
        const auto share = share_of(part);
        rows.push_back({part.site, std::to_string(part.nodes.size()), std::to_string(share.slots * plan.tp),
                        part.gpu, range(share.first_stage, share.last_stage),
                        layers_of(plan, share.first_stage, share.last_stage)});
    }
    return columns(rows);
}

std::string time_rows(const Iteration &iteration) {
    std::vector<std::vector<std::string>> rows{{"one iteration", seconds_words(iteration.seconds), "100%"}};
    for (const auto &term : iteration.terms)
        if (term.seconds > 0)
            rows.push_back(
                {"  " + term.name, seconds_words(term.seconds), percent(term.seconds / iteration.seconds)});
    return columns(rows);
}

std::string shape_words(const Plan &plan) {
    return "pp=" + std::to_string(plan.pp) + " dp=" + std::to_string(plan.dp) +
           " tp=" + std::to_string(plan.tp);
}

} // namespace

std::string summary(const Plan &plan) {
    if (plan.outcome != Outcome::planned) return "no plan: " + plan.reason;
    std::vector<std::string> parts;
    for (const auto &part : plan.parts)
        parts.push_back(part_words(plan, part));
    auto line = shape_words(plan) + " over " + util::join(parts, ", ") + ": " +
                seconds_words(plan.iteration.seconds) + "/iteration, " +
                tokens_words(plan.iteration.tokens_per_second) + ", " + bound_words(plan.iteration);
    if (plan.parts.size() > 1 && plan.home_alone > 0)
        line += "; home alone " + seconds_words(plan.home_alone);
    if (plan.parts.size() == 1) line += "; " + plan.reason;
    return line;
}

std::string table(const Plan &plan) {
    if (plan.outcome != Outcome::planned) return "no plan: " + plan.reason + "\n";
    const auto &iteration = plan.iteration;
    auto text = shape_words(plan) + ", " + std::to_string(plan.micro_batches) + " x " +
                std::to_string(plan.micro_batch) + " sequences per pipeline" + "\n" + plan.reason + "\n\n" +
                site_rows(plan) + "\n" + stage_rows(plan) + "\n" + time_rows(iteration) + "\n";
    text += "speed       " + tokens_words(iteration.tokens_per_second) + "\n";
    text += "bottleneck  " + bottleneck_words(iteration.bottleneck) + "\n";
    text += "bound       " + seconds_words(iteration.bound) + ", " + bound_words(iteration) + "\n";
    if (plan.home_alone > 0) text += "home alone  " + seconds_words(plan.home_alone) + "\n";
    text += "planner     " + plan.search.planner + ", " + std::to_string(plan.search.evaluations) +
            " candidates in " + seconds_words(plan.search.seconds) + "\n";
    return text;
}

} // namespace spider::plan
