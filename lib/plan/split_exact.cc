// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/site_split.h"

#include <algorithm>

namespace spider::plan {

namespace {

// The best way to a state, and its last stage.
struct Cell {
    Seconds slowest = ilp::infinity;
    int length = 0, node_class = 0, option = 0;
};

// The stages on each class are the digits of one number, the class's `weight` apart.
class Table {
  public:
    explicit Table(const SplitProblem &problem);

    [[nodiscard]] std::optional<Split> best() const;

  private:
    using Layer = std::vector<Cell>; // after a number of stages: by counts, then by layers used
    [[nodiscard]] std::size_t count(std::size_t counts, std::size_t node_class) const {
        return counts / weights_[node_class] % radixes_[node_class];
    }
    void advance(int stage, std::size_t counts, int used);
    [[nodiscard]] std::size_t at(std::size_t counts, int used) const {
        return counts * (static_cast<std::size_t>(problem_.layers) + 1) + static_cast<std::size_t>(used);
    }

    const SplitProblem &problem_;
    std::vector<std::size_t> radixes_, weights_;
    std::size_t combinations_ = 1;
    std::vector<Layer> after_;
};

Table::Table(const SplitProblem &problem) : problem_(problem) {
    for (const int slots : problem.slots) {
        radixes_.push_back(static_cast<std::size_t>(std::min(slots, problem.stages)) + 1);
        weights_.push_back(combinations_);
        combinations_ *= radixes_.back();
    }
    after_.assign(static_cast<std::size_t>(problem.stages) + 1, Layer(at(combinations_, 0)));
    after_[0][0].slowest = 0;
    for (int stage = 0; stage < problem.stages; ++stage)
        for (std::size_t counts = 0; counts < combinations_; ++counts)
            for (int used = 0; used < problem.layers; ++used)
                advance(stage, counts, used);
}

void Table::advance(int stage, std::size_t counts, int used) {
    const auto before = after_[static_cast<std::size_t>(stage)][at(counts, used)].slowest;
    if (before == ilp::infinity) return;
    auto &next = after_[static_cast<std::size_t>(stage) + 1];
    for (std::size_t c = 0; c < weights_.size(); ++c) {
        if (count(counts, c) + 1 == radixes_[c]) continue;
        for (int option = 0; option < problem_.options; ++option)
            for (int length = 1; used + length <= problem_.layers; ++length) {
                const auto node_class = static_cast<int>(c);
                const auto slowest = std::max(before, problem_.at(stage, node_class, option, length));
                auto &cell = next[at(counts + weights_[c], used + length)];
                if (slowest < cell.slowest) cell = {slowest, length, node_class, option};
            }
    }
}

std::optional<Split> Table::best() const {
    const auto cell = [&](std::size_t stages, std::size_t counts, int used) -> const Cell & {
        return after_[stages][at(counts, used)];
    };
    auto stage = after_.size() - 1;
    std::size_t counts = 0;
    for (std::size_t i = 1; i < combinations_; ++i)
        if (cell(stage, i, problem_.layers).slowest < cell(stage, counts, problem_.layers).slowest)
            counts = i;
    Split split{.lengths{}, .classes{}, .options{}, .slowest = cell(stage, counts, problem_.layers).slowest};
    if (split.slowest == ilp::infinity) return std::nullopt;
    for (int used = problem_.layers; stage > 0; --stage) {
        const auto &last = cell(stage, counts, used);
        split.lengths.push_back(last.length);
        split.classes.push_back(last.node_class);
        split.options.push_back(last.option);
        counts -= weights_[static_cast<std::size_t>(last.node_class)], used -= last.length;
    }
    for (auto *row : {&split.lengths, &split.classes, &split.options})
        std::reverse(row->begin(), row->end());
    return split;
}

} // namespace

std::optional<Split> split_exact(const SplitProblem &problem) {
    if (!trouble_with(problem).empty()) return std::nullopt;
    return Table(problem).best();
}

} // namespace spider::plan
