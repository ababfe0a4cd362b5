// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/summary.h"

#include "model/gpu_table.h"
#include "model/json.h"
#include "plan/course.h"
#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

constexpr std::size_t most_rows = 60; // of sites and of stages each; a terminal and a log have an end
constexpr std::size_t most_parts = 8; // in one line
constexpr std::size_t most_names = 4; // of sites in a cell

struct Share {
    int slots = 0;
    std::set<int> stages, members;
};

Share share_of(const Part &part) {
    Share share;
    for (const auto &node : part.nodes) {
        for (const auto &slot : node) {
            ++share.slots;
            share.stages.insert(slot.stage);
            share.members.insert(slot.dp);
        }
    }
    return share;
}

// Stages that follow each other have layers that do.
std::string layers_of(const Plan &plan, const std::set<int> &stages) {
    std::vector<std::string> parts;
    for (auto first = stages.begin(); first != stages.end();) {
        auto last = first, next = std::next(first);
        while (next != stages.end() && *next == *last + 1)
            last = next++;
        if (*first < 0 || static_cast<std::size_t>(*last) >= plan.stages.size()) return "?";
        const int begin = plan.stages[static_cast<std::size_t>(*first)].first_layer;
        const int end = plan.stages[static_cast<std::size_t>(*last)].last_layer;
        parts.push_back(std::to_string(begin) + (end > begin ? "-" + std::to_string(end) : ""));
        first = next;
    }
    return util::join(parts, ",");
}

std::string part_words(const Plan &plan, const Part &part) {
    const auto share = share_of(part);
    const auto members = static_cast<int>(share.members.size());
    auto text = part.site + " (" + count(static_cast<int>(part.nodes.size()), "node") + ", " +
                count(share.slots * plan.tp, "GPU") + ", layers " + layers_of(plan, share.stages);
    if (members < plan.dp)
        text += std::string(members == 1 ? ", pipeline " : ", pipelines ") + ranges(share.members);
    return text + ")";
}

std::string bottleneck_words(const Plan &plan) {
    const auto &bottleneck = plan.iteration.bottleneck;
    if (bottleneck.kind == "link") return "link " + bottleneck.from + " -> " + bottleneck.to;
    const auto seats = seats_of(plan);
    const auto at = [&](std::size_t stage) {
        return "stage " + std::to_string(stage) + " at " + some_of(sites_of(seats, stage), most_names);
    };
    if (bottleneck.kind == "stage") {
        const auto stage = util::to_int(bottleneck.from).value_or(-1);
        if (stage < 0 || static_cast<std::size_t>(stage) >= seats.size()) return "stage " + bottleneck.from;
        return at(static_cast<std::size_t>(stage));
    }
    if (bottleneck.kind != "gradients" || plan.stages.empty()) return bottleneck.kind;
    const auto longest =
        std::max_element(plan.stages.begin(), plan.stages.end(),
                         [](const Stage &a, const Stage &b) { return a.gradient < b.gradient; });
    return "all-reduce of " + at(static_cast<std::size_t>(longest - plan.stages.begin()));
}

// Columns as wide as their widest cell: numbers to the right, the first and those of `text` to the left.
class Rows {
  public:
    Rows(std::vector<std::string> titles, std::vector<std::size_t> text = {}) : text_(std::move(text)) {
        rows_.push_back(std::move(titles));
    }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    [[nodiscard]] std::string words(const std::string &of = "rows") const {
        std::vector<std::size_t> widths;
        const auto shown = rows_.size() > most_rows + 2 ? most_rows + 1 : rows_.size();
        for (std::size_t n = 0; n < shown; ++n) {
            widths.resize(std::max(widths.size(), rows_[n].size()));
            for (std::size_t i = 0; i < rows_[n].size(); ++i)
                widths[i] = std::max(widths[i], rows_[n][i].size());
        }
        std::string all;
        for (std::size_t n = 0; n < shown; ++n)
            all += line(rows_[n], widths);
        if (shown < rows_.size())
            all += "… " + std::to_string(rows_.size() - shown) + " more " + of + " like these\n";
        return all;
    }

  private:
    [[nodiscard]] std::string line(const std::vector<std::string> &row,
                                   const std::vector<std::size_t> &widths) const {
        std::string text;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string pad(widths[i] - row[i].size(), ' ');
            const bool left = i == 0 || std::find(text_.begin(), text_.end(), i) != text_.end();
            text += (i == 0 ? "" : "  ") + (left ? row[i] + pad : pad + row[i]);
        }
        text.erase(text.find_last_not_of(' ') + 1);
        return text + '\n';
    }
    std::vector<std::size_t> text_;
    std::vector<std::vector<std::string>> rows_;
};

std::string site_rows(const Plan &plan) {
    std::vector<std::string> titles{"site", "nodes", "GPUs", "type", "stages", "layers"};
    if (plan.dp > 1) titles.emplace_back("pipelines");
    Rows rows(titles, {3});
    for (const auto &part : plan.parts) {
        const auto share = share_of(part);
        std::vector<std::string> row{part.site,
                                     std::to_string(part.nodes.size()),
                                     std::to_string(share.slots * plan.tp),
                                     part.gpu,
                                     ranges(share.stages),
                                     layers_of(plan, share.stages)};
        if (plan.dp > 1) row.push_back(ranges(share.members));
        rows.add(std::move(row));
    }
    return rows.words("sites");
}

// Of a GPU of that part: as the federation says, else as the type usually has; 0 = not known.
Bytes memory_at(const Part &part, const Federation *federation) {
    if (const auto *site = federation ? federation->site(part.site) : nullptr)
        for (const auto &nodes : site->classes)
            if (nodes.gpu.name == part.gpu) return nodes.gpu.memory;
    const auto gpu = model::gpu_type_named(part.gpu);
    return gpu ? gpu->memory : 0;
}

// "75.7 of 80.0 GB", of the smallest GPU that each stage is on.
std::vector<std::string> memory_words(const Plan &plan, const Federation *federation) {
    std::vector<Bytes> least(plan.stages.size(), 0);
    for (const auto &part : plan.parts) {
        const auto has = memory_at(part, federation);
        for (const int i : share_of(part).stages) {
            if (i < 0 || static_cast<std::size_t>(i) >= least.size()) continue;
            auto &known = least[static_cast<std::size_t>(i)];
            known = known > 0 ? std::min(known, has) : has;
        }
    }
    std::vector<std::string> words;
    for (std::size_t i = 0; i < least.size(); ++i) {
        const auto used = plan.stages[i].memory;
        auto text = used > 0 ? gigabytes(used) : "-";
        if (used > 0 && least[i] >= used) // else the table of types knows less than the plan
            text = (used >= 1e8 ? decimal(used / 1e9, 1) : text) + " of " + gigabytes(least[i]);
        words.push_back(std::move(text));
    }
    return words;
}

std::string stage_rows(const Plan &plan, const Federation *federation) {
    const auto memory = memory_words(plan, federation);
    const auto seats = seats_of(plan);
    std::vector<std::string> titles{"stage",    "layers",     "depth",          "forward",
                                    "backward", "all-reduce", "memory per GPU", "at"};
    Rows rows(titles, {7});
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto &stage = plan.stages[i];
        rows.add({std::to_string(i), layers_of(plan, {static_cast<int>(i)}), std::to_string(stage.depth),
                  seconds_words(stage.forward), seconds_words(stage.backward),
                  stage.gradient > 0 ? seconds_words(stage.gradient) : "-", memory[i],
                  some_of(sites_of(seats, i), most_names)});
    }
    return rows.words("stages");
}

std::string time_rows(const Iteration &iteration) {
    Rows rows({"one iteration", seconds_words(iteration.seconds), "100%"});
    for (const auto &term : iteration.terms)
        if (term.seconds > 1e-9 * iteration.seconds) // less is rounding
            rows.add(
                {"  " + term.name, seconds_words(term.seconds), percent(term.seconds / iteration.seconds)});
    return rows.words();
}

std::string alternative_rows(const Plan &plan) {
    if (plan.alternatives.empty()) return {};
    Rows rows({"other ways", "iteration", "of this", "start", "sites"}, {4});
    for (const auto &other : plan.alternatives)
        rows.add({"  " + other.name, seconds_words(other.seconds),
                  decimal(other.seconds / plan.iteration.seconds, 2) + " x",
                  other.start > 0 ? "in " + duration_words(other.start) : "now",
                  some_of(other.sites, most_names)});
    return "\n" + rows.words("ways");
}

std::string start_words(const Plan &plan) {
    auto text = "in " + duration_words(plan.start) + ", when all its GPUs are free";
    for (const auto &other : plan.alternatives)
        if (other.start <= 0)
            return text + "; starting now, an iteration would take " + seconds_words(other.seconds);
    return text + "; nothing fits now";
}

std::string heading(const Plan &plan) {
    auto text = shape_words(plan) + (plan.family.empty() ? "" : ", " + plan.family) + ", " +
                std::to_string(plan.micro_batches) +
                (plan.micro_batches == 1 ? " micro-batch" : " micro-batches") + " of " +
                count(plan.micro_batch, "sequence");
    if (plan.recompute != Recompute::none) text += ", recompute=" + std::string(model::name(plan.recompute));
    return text;
}

} // namespace

std::string summary(const Plan &plan) {
    if (plan.outcome != Outcome::planned) return "no plan: " + plan.reason;
    std::vector<std::string> parts;
    for (const auto &part : plan.parts)
        parts.push_back(part_words(plan, part));
    auto line = shape_words(plan) + " over " + some_of(parts, most_parts) + ": " +
                seconds_words(plan.iteration.seconds) + "/iteration, " +
                tokens_words(plan.iteration.tokens_per_second) + ", " + bound_words(plan.iteration);
    if (plan.start > 0) line += "; starts in " + duration_words(plan.start);
    if (plan.parts.size() > 1 && plan.home_alone > 0)
        line += "; home alone " + seconds_words(plan.home_alone);
    if (plan.parts.size() == 1) line += "; " + plan.reason;
    return line;
}

std::string table(const Plan &plan, const Federation *federation) {
    if (plan.outcome != Outcome::planned) return "no plan: " + plan.reason + "\n";
    const auto &iteration = plan.iteration;
    auto text = heading(plan) + "\n" + plan.reason + "\n\n" + site_rows(plan) + "\n" +
                stage_rows(plan, federation) + "\n" + time_rows(iteration) + alternative_rows(plan) + "\n";
    if (plan.start > 0) text += "start       " + start_words(plan) + "\n";
    text += "speed       " + tokens_words(iteration.tokens_per_second) + "\n";
    text += "bottleneck  " + bottleneck_words(plan) + "\n";
    text += "bound       " + gap_words(iteration) + "\n";
    if (iteration.bound > 0)
        text += "gap         " + percent((iteration.seconds - iteration.bound) / iteration.seconds) + "\n";
    if (plan.home_alone > 0) text += "home alone  " + seconds_words(plan.home_alone) + "\n";
    text += "planner     " + plan.search.planner + ", " + std::to_string(plan.search.evaluations) +
            " candidates in " + seconds_words(plan.search.seconds) + "\n";
    return text;
}

} // namespace spider::plan
