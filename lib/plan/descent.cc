// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/descent.h"

#include <algorithm>
#include <cmath>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

constexpr double least_gain = 1e-9; // relative: rounding is no gain
constexpr int all_pairs_up_to = 72; // cells or sites; beyond that a sample
constexpr int sample = 64;

} // namespace

Descent::Descent(const Problem &problem, WebState &state, std::mt19937_64 &chance, bool move_layers)
    : problem_(problem), state_(state), chance_(chance), move_layers_(move_layers) {}

int Descent::pick(int below) {
    return static_cast<int>((chance_() >> 32) * static_cast<std::uint64_t>(below) >> 32);
}

// A required site keeps at least one cell.
bool Descent::may_leave(int site) const {
    return !problem_.sites()[index(site)].required || state_.used(site) > 1;
}

bool Descent::attempt(const std::vector<Change> &changes, const Judge &judge) {
    if (changes.empty()) return false;
    state_.change(changes, limit_);
    if (judge(state_)) return true;
    state_.undo();
    return false;
}

bool Descent::exchanges(const Judge &judge, std::int64_t until) {
    const int cells = state_.web().shape.cells();
    bool better = false;
    const auto exchange = [&](int a, int b) {
        const int x = state_.web().cells[index(a)], y = state_.web().cells[index(b)];
        if (x != y) better |= attempt(changes_ = {{a, y}, {b, x}}, judge);
    };
    for (int a = 0; a < cells && state_.work() < until; ++a) {
        if (cells <= all_pairs_up_to)
            for (int b = a + 1; b < cells; ++b)
                exchange(a, b);
        else
            for (int n = 0; n < sample; ++n)
                if (const int b = pick(cells); b != a) exchange(a, b);
    }
    return better;
}

bool Descent::replacements(const Judge &judge, std::int64_t until) {
    const int cells = state_.web().shape.cells(), sites = static_cast<int>(problem_.size());
    bool better = false;
    const auto replace = [&](int cell, int site) {
        const int old = state_.web().cells[index(cell)];
        if (site == old || !problem_.sites()[index(site)].routable || !state_.has_room(site) ||
            !may_leave(old))
            return;
        better |= attempt(changes_ = {{cell, site}}, judge);
    };
    for (int cell = 0; cell < cells && state_.work() < until; ++cell) {
        if (sites <= all_pairs_up_to)
            for (int site = 0; site < sites; ++site)
                replace(cell, site);
        else
            for (int n = 0; n < sample; ++n)
                replace(cell, pick(sites));
    }
    return better;
}

bool Descent::spins(const Judge &judge, std::int64_t until) {
    const auto [tp, stages, groups, width] = state_.web().shape;
    bool better = false;
    for (int i = 0; i < stages && groups > 1 && state_.work() < until; ++i) {
        for (int turn = 1; turn < std::min(groups, sample); ++turn) { // ring i alone
            changes_.clear();
            for (int g = 0; g < groups; ++g)
                changes_.emplace_back(g * stages + i, state_.web().at((g + turn) % groups, i));
            better |= attempt(changes_, judge);
        }
    }
    for (int i = 1; i < stages && state_.work() < until; ++i) { // tails of two pipelines
        for (int g = 0; g < std::min(groups, sample); ++g) {
            for (int h = g + 1; h < std::min(groups, sample); ++h) {
                changes_.clear();
                for (int j = i; j < stages; ++j) {
                    changes_.emplace_back(g * stages + j, state_.web().at(h, j));
                    changes_.emplace_back(h * stages + j, state_.web().at(g, j));
                }
                better |= attempt(changes_, judge);
            }
        }
    }
    return better;
}

bool Descent::reversals(const Judge &judge, std::int64_t until) {
    const auto [tp, stages, groups, width] = state_.web().shape;
    bool better = false;
    const auto reversed = [&](int group, int i, int j) {
        for (int n = i; n <= j; ++n)
            changes_.emplace_back(group * stages + n, state_.web().at(group, i + j - n));
    };
    for (int i = 0; i + 1 < stages && state_.work() < until; ++i) {
        for (int j = i + 1; j < stages; ++j) {
            changes_.clear();
            for (int g = 0; g < groups; ++g)
                reversed(g, i, j);
            better |= attempt(changes_, judge);
            changes_.clear();
            for (int g = 0; g < groups && j > i + 1; ++g) { // rings i and j
                changes_.emplace_back(g * stages + i, state_.web().at(g, j));
                changes_.emplace_back(g * stages + j, state_.web().at(g, i));
            }
            better |= attempt(changes_, judge);
            for (int g = 0; g < std::min(groups, sample) && groups > 1 && j > i + 1; ++g) {
                changes_.clear();
                reversed(g, i, j);
                better |= attempt(changes_, judge);
            }
        }
    }
    return better;
}

bool Descent::layers(const Judge &judge, std::int64_t until) {
    const int stages = state_.web().shape.stages;
    bool better = false;
    for (int from = 0; from < stages && state_.work() < until; ++from) {
        for (int to = 0; to < stages; ++to) {
            if (from == to || state_.web().layers[index(from)] < 2) continue;
            state_.move_layer(from, to);
            if (judge(state_))
                better = true;
            else
                state_.undo();
        }
    }
    return better;
}

bool Descent::sweep(const Judge &judge, std::int64_t until) {
    bool better = exchanges(judge, until);
    better |= replacements(judge, until);
    better |= spins(judge, until);
    better |= reversals(judge, until);
    if (move_layers_) better |= layers(judge, until);
    return better;
}

void Descent::run(std::int64_t work) {
    auto best = state_.rank();
    const auto until = state_.work() + work;
    const Judge lower = [&](const WebState &state) {
        if (!(state.rank() < best * (1 - least_gain))) return false;
        limit_ = best = state.rank();
        return true;
    };
    limit_ = best;
    while (state_.work() < until && sweep(lower, until)) {
    }
    limit_ = never;
}

void Descent::shuffle() {
    auto cells = state_.web().cells;
    for (std::size_t i = cells.size(); i > 1; --i)
        std::swap(cells[i - 1], cells[index(pick(static_cast<int>(i)))]);
    state_.reset(std::move(cells));
}

// Tails of two pipelines, from one stage on.
bool Descent::random_tails() {
    const auto [tp, stages, groups, width] = state_.web().shape;
    if (groups < 2 || stages < 2) return false;
    const int g = pick(groups), h = pick(groups), i = 1 + pick(stages - 1);
    if (g == h) return false;
    for (int j = i; j < stages; ++j) {
        changes_.emplace_back(g * stages + j, state_.web().at(h, j));
        changes_.emplace_back(h * stages + j, state_.web().at(g, j));
    }
    return true;
}

bool Descent::random_turn() {
    const auto [tp, stages, groups, width] = state_.web().shape;
    if (groups < 2) return false;
    const int i = pick(stages), turn = 1 + pick(groups - 1);
    for (int g = 0; g < groups; ++g)
        changes_.emplace_back(g * stages + i, state_.web().at((g + turn) % groups, i));
    return true;
}

// A stretch of one pipeline, or of all.
bool Descent::random_reversal() {
    const auto [tp, stages, groups, width] = state_.web().shape;
    const int i = pick(stages), j = pick(stages), all = pick(2), one = pick(groups);
    if (i >= j) return false;
    for (int g = 0; g < groups; ++g)
        for (int n = i; n <= j && (all == 1 || g == one); ++n)
            changes_.emplace_back(g * stages + n, state_.web().at(g, i + j - n));
    return true;
}

// A site that is near to what the cell's neighbour in its pipeline runs on.
int Descent::site_near(int cell) {
    const int stages = state_.web().shape.stages, stage = cell % stages;
    const int step = stage == 0 ? 1 : stage + 1 == stages ? -1 : 2 * pick(2) - 1;
    if (stages < 2) return -1;
    const int neighbour = state_.web().cells[index(cell + step)];
    const auto near = problem_.near(neighbour);
    const int choice = pick(static_cast<int>(near.size()) + 1);
    return choice == 0 ? neighbour : near[index(choice - 1)];
}

bool Descent::random_move(double limit) {
    const auto &web = state_.web();
    const int cells = web.shape.cells(), stages = web.shape.stages;
    changes_.clear();
    const int kind = pick(100);
    if (move_layers_ && kind < 4) {
        const int from = pick(stages), to = pick(stages);
        if (from == to || web.layers[index(from)] < 2) return false;
        state_.move_layer(from, to);
        return true;
    }
    // Mostly where it hurts: only there can a move lower the seconds.
    const int where = pick(3);
    const int cell = where == 0   ? pick(cells)
                     : where == 1 ? state_.worst_group() * stages + pick(stages)
                                  : pick(web.shape.groups) * stages + state_.worst_stage();
    const int old = web.cells[index(cell)];
    if (kind < 12) {
        if (!random_tails()) return false;
    } else if (kind < 14) {
        if (!random_turn()) return false;
    } else if (kind < 19) {
        if (!random_reversal()) return false;
    } else {
        const int site = kind < 50   ? site_near(cell)
                         : kind < 60 ? pick(static_cast<int>(problem_.size()))
                                     : -1;
        const int other = site < 0 ? pick(cells) : state_.cell_of(site);
        if (site >= 0 && problem_.sites()[index(site)].routable &&
            state_.has_room(site)) { // in for the old one
            if (site == old || !may_leave(old)) return false;
            changes_.emplace_back(cell, site);
        } else {
            if (other < 0 || web.cells[index(other)] == old) return false;
            changes_.emplace_back(cell, web.cells[index(other)]), changes_.emplace_back(other, old);
        }
    }
    state_.change(changes_, limit);
    return true;
}

void Descent::anneal(std::int64_t work, double hot) {
    const auto begin = state_.work();
    auto best = state_.web();
    auto best_rank = state_.rank(), value = state_.value();
    if (!(value < never) || work <= 0) return;
    constexpr double cold = 1e-4; // of the value, as `hot` is
    double heat = 0;
    std::int64_t move = 0; // no more than steps: some webs have none that is possible
    for (auto done = 0.0; done < 1 && move < work;
         done = static_cast<double>(state_.work() - begin) / static_cast<double>(work)) {
        if (move++ % 64 == 0) heat = value * hot * std::pow(cold / hot, done);
        const auto luck = (static_cast<double>(chance_() >> 11) + 1) * 0x1p-53;
        const auto limit = value - heat * std::log(luck); // Metropolis: accepted up to here
        if (!random_move(limit)) continue;
        if (state_.value() <= limit) {
            value = state_.value();
            if (state_.rank() < best_rank) best_rank = state_.rank(), best = state_.web();
        } else {
            state_.undo();
        }
    }
    state_.reset(best.cells, best.layers);
}

} // namespace spider::plan
