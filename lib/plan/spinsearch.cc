// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/spinsearch.h"

#include "plan/descent.h"
#include "plan/tpa.h"
#include "plan/weave.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Steps are of about ten instructions; a slow core does so many per second.
constexpr double steps_per_second = 190e6;
constexpr std::size_t most_drafts = 16;  // shapes that are improved
constexpr std::size_t most_elite = 12;   // webs that are priced exactly at the end
constexpr Seconds split_deadline = 0.05; // of all integer programs; they are usually done in one
constexpr std::size_t few_sites = 8;     // all are hubs
constexpr std::size_t more_hubs = 4;
constexpr int least_patience = 6;          // rounds of annealing without a gain; and one more per cell
constexpr double warm = 0.012, hot = 0.05; // where annealing begins, relative to the web's value
constexpr double alone_share = 0.1, weaving_share = 0.25,
                 settling_share = 0.15; // of the budget; the rest improves

} // namespace

Family family_of(const Web &web) {
    bool rings = false, radials = false;
    for (int g = 0; g < web.shape.groups; ++g) {
        for (int i = 0; i < web.shape.stages; ++i) {
            rings = rings || web.at(g, i) != web.at(0, i);
            radials = radials || web.at(g, i) != web.at(g, 0);
        }
    }
    if (rings && radials) return Family::both;
    return rings ? Family::data : radials ? Family::pipeline : Family::alone;
}

std::string_view name(Family family) {
    constexpr std::array<std::string_view, families> names{"one site alone", "pipeline over sites",
                                                           "data parallel over sites",
                                                           "pipeline and data parallel over sites"};
    return names[static_cast<std::size_t>(family)];
}

SpinSearch::SpinSearch(const Problem &problem, Seconds budget, std::uint64_t seed, bool move_layers)
    : problem_(problem), budget_(static_cast<std::int64_t>(budget * steps_per_second)),
      move_layers_(move_layers), chance_(seed) {
    const auto sites = problem.size();
    std::vector<double> far(sites, 0);
    for (std::size_t i = 0; i < sites; ++i) {
        for (std::size_t j = 0; j < sites; ++j) {
            const auto &hop = problem.hop(static_cast<int>(i), static_cast<int>(j));
            if (i != j) far[i] += hop.latency < never ? hop.latency + hop.seconds_per_byte * 1e7 : 10;
        }
    }
    closeness_.resize(sites);
    std::iota(closeness_.begin(), closeness_.end(), 0);
    std::stable_sort(closeness_.begin(), closeness_.end(),
                     [&](int a, int b) { return far[index(a)] < far[index(b)]; });
}

void SpinSearch::run() {
    search_alone();
    if (problem_.size() > 1) {
        weave_all();
        improve_best();
        settle();
    }
    if (move_layers_) split_best(split_deadline);
}

std::int64_t SpinSearch::share_of(double share) const {
    return static_cast<std::int64_t>(static_cast<double>(budget_) * share);
}

bool SpinSearch::faster(const Draft &a, const Draft &b) { return a.value < b.value; }

Seconds SpinSearch::best_seconds() const {
    Seconds least = never;
    for (const auto &found : best_)
        if (found) least = std::min(least, found->seconds());
    return least;
}

std::int64_t SpinSearch::price_of(const Web &web) const {
    const std::int64_t batches = problem_.micro_batches(web.shape.dp());
    const std::int64_t stages = web.shape.stages, groups = web.shape.groups;
    return batches * web.shape.cells() * 5 / 2 + 20 * web.shape.cells() + 10 * groups * stages * stages +
           500 * stages * std::min<std::int64_t>(groups, 9);
}

void SpinSearch::take(const Web &web) {
    work_ += price_of(web), ++evaluations_;
    auto priced = price(problem_, web);
    if (!priced) return;
    auto &best = best_[static_cast<std::size_t>(family_of(web))];
    const auto seconds = priced->iteration.seconds;
    if (!best || std::tuple(seconds, web) < std::tuple(best->seconds(), best->web))
        best = Found{web, std::move(*priced)};
}

// One site: no search, only shapes. Sites that are alike are looked at once.
void SpinSearch::search_alone() {
    std::vector<int> looked_at;
    for (int site = 0; site < static_cast<int>(problem_.size()); ++site) {
        const auto &pool = problem_.sites()[index(site)].pool;
        if (problem_.home() >= 0 && site != problem_.home()) continue;
        const bool known = std::any_of(looked_at.begin(), looked_at.end(), [&](int other) {
            const auto &seen = problem_.sites()[index(other)].pool;
            return seen.gpu == pool.gpu && seen.nodes == pool.nodes;
        });
        if (known) continue;
        looked_at.push_back(site);
        for (const auto &[shape, bound, estimate] : shapes_at_site(problem_, site)) {
            if (best(Family::alone) &&
                (bound >= best(Family::alone)->seconds() || work_ > share_of(alone_share)))
                break;
            WebState state(problem_, shape, crossings_);
            state.reset(std::vector<int>(index(shape.cells()), site));
            work_ += state.work(), ++evaluations_;
            if (state.seconds() < never) take(state.web());
        }
    }
}

std::vector<int> SpinSearch::hubs(const Shape &shape, std::size_t most) const {
    if (problem_.home() >= 0) return {problem_.home()};
    std::vector<int> chosen;
    for (const int site : closeness_) {
        if (!problem_.sites()[index(site)].routable || problem_.slots(site, shape.tp) < shape.width) continue;
        chosen.push_back(site);
        if (chosen.size() == most) break;
    }
    return chosen;
}

// Each site that must take part and does not gets the cell where it costs least. False: there is no such
// cell.
bool SpinSearch::include_required(WebState &state) const {
    for (int site = 0; site < static_cast<int>(problem_.size()); ++site) {
        if (!problem_.sites()[index(site)].required || state.used(site) > 0) continue;
        if (!state.has_room(site)) return false;
        int best = -1;
        double least = never;
        for (int cell = 0; cell < state.web().shape.cells(); ++cell) {
            const int old = state.web().cells[index(cell)];
            if (problem_.sites()[index(old)].required && state.used(old) < 2) continue;
            const std::vector<Change> change{{cell, site}};
            state.change(change);
            if (best < 0 || state.value() < least) best = cell, least = state.value();
            state.undo();
        }
        if (best < 0) return false;
        const std::vector<Change> change{{best, site}};
        state.change(change);
    }
    return true;
}

void SpinSearch::remember(const WebState &state) {
    if (!(state.seconds() < never)) return;
    if (elite_.size() == most_elite && state.seconds() >= elite_.back().seconds) return;
    for (const auto &known : elite_)
        if (known.web == state.web()) return;
    elite_.push_back({state.web(), state.seconds(), state.value(), 0});
    std::stable_sort(elite_.begin(), elite_.end(),
                     [](const Draft &a, const Draft &b) { return a.seconds < b.seconds; });
    if (elite_.size() > most_elite) elite_.pop_back();
}

// The best woven web of a shape from so many hubs.
std::optional<SpinSearch::Draft> SpinSearch::first_web(const Shape &shape, std::size_t most_hubs) {
    WebState state(problem_, shape, crossings_);
    std::optional<Draft> best;
    for (const int hub : hubs(shape, most_hubs)) {
        for (const auto thread : {Thread::radials, Thread::rings}) {
            if (thread == Thread::rings && (shape.groups == 1 || shape.stages == 1)) continue;
            auto cells = weave(problem_, shape, hub, thread);
            work_ += 2 * shape.cells() * static_cast<std::int64_t>(problem_.size());
            if (cells.empty()) continue;
            state.reset(std::move(cells));
            ++evaluations_;
            if (!include_required(state)) continue;
            if (!best || state.value() < best->value)
                best = Draft{state.web(), state.seconds(), state.value(), 0};
        }
    }
    work_ += state.work();
    return best;
}

void SpinSearch::weave_all() {
    const auto shapes = shapes_over_sites(problem_);
    const auto until = work_ + share_of(shapes.size() > 1 ? weaving_share : 0);
    for (const auto &[shape, bound, estimate] : shapes) {
        if (work_ >= until && !drafts_.empty()) break;
        if (bound >= best_seconds()) continue;
        auto draft = first_web(shape, problem_.size() <= few_sites ? few_sites : 1);
        if (!draft) continue;
        draft->bound = bound;
        drafts_.push_back(std::move(*draft));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(), faster);
    // Every family's best is known exactly before the search narrows to the best shapes.
    std::array<int, families> taken{};
    for (const auto &draft : drafts_)
        if (taken[static_cast<std::size_t>(family_of(draft.web))]++ == 0) take(draft.web);
}

void SpinSearch::improve(Draft &draft, std::int64_t effort) {
    WebState state(problem_, draft.web.shape, crossings_);
    Descent descent(problem_, state, chance_, move_layers_);
    state.reset(draft.web.cells, draft.web.layers);
    auto value = state.value();
    const auto bound = draft.bound;
    // Small webs are done before the budget is.
    const std::int64_t cells = draft.web.shape.cells();
    const auto round = std::min(effort * 4 / 5, 3'000 + 4000 * cells * cells);
    for (std::int64_t idle = 0; idle < least_patience + cells && state.work() < effort; ++idle) {
        if (idle > 0) state.reset(draft.web.cells, draft.web.layers);
        // Near the best web, then farther from it, then from anywhere.
        if (idle % 3 == 2) descent.shuffle();
        descent.anneal(std::min(round, effort - state.work()), idle % 3 == 0 ? warm : hot);
        descent.run(effort - state.work());
        ++evaluations_;
        remember(state);
        if (!(state.value() < value * (1 - 1e-9))) continue;
        value = state.value(), idle = -1;
        draft = {state.web(), state.seconds(), state.value(), bound};
    }
    work_ += state.work();
}

// Successive halving: every round has the same effort for half as many shapes.
void SpinSearch::improve_best() {
    std::erase_if(drafts_, [&](const Draft &draft) { return draft.bound >= best_seconds(); });
    if (drafts_.size() > most_drafts) drafts_.resize(most_drafts);
    for (auto &draft : drafts_) { // from more hubs, now that few are left
        auto other = problem_.size() > few_sites ? first_web(draft.web.shape, more_hubs) : std::nullopt;
        if (other && other->value < draft.value)
            draft = {other->web, other->seconds, other->value, draft.bound};
    }
    std::size_t rounds = 1;
    while ((std::size_t{1} << rounds) <= drafts_.size())
        ++rounds;
    const auto all = std::max<std::int64_t>(0, share_of(1 - settling_share) - work_);
    for (std::size_t round = 0; round < rounds && !drafts_.empty(); ++round) {
        const auto effort = all / static_cast<std::int64_t>(rounds * drafts_.size());
        for (auto &draft : drafts_)
            improve(draft, effort);
        std::stable_sort(drafts_.begin(), drafts_.end(), faster);
        drafts_.resize((drafts_.size() + 1) / 2);
    }
}

void SpinSearch::settle() {
    for (const auto &draft : elite_)
        if (draft.seconds < best_seconds() * 1.05) take(draft.web);
    std::vector<Found> starts;
    for (const auto &found : best_)
        if (found && found->web.shape.cells() > 1 && family_of(found->web) != Family::alone)
            starts.push_back(*found);
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Found &a, const Found &b) { return a.seconds() < b.seconds(); });
    if (!starts.empty()) polish(std::move(starts.front()), std::max(budget_ - work_, budget_ / 10));
}

// Descends by the exact price among the moves whose estimate is near.
void SpinSearch::polish(Found found, std::int64_t effort) {
    WebState state(problem_, found.web.shape, crossings_);
    Descent descent(problem_, state, chance_, move_layers_);
    state.reset(found.web.cells, found.web.layers);
    auto estimate = state.seconds();
    std::int64_t exact = 0;
    const Descent::Judge judge = [&](const WebState &changed) {
        if (changed.seconds() > estimate * 1.02 || state.work() + exact > effort) return false;
        exact += price_of(changed.web()), ++evaluations_;
        auto priced = price(problem_, changed.web());
        if (!priced || !(priced->iteration.seconds < found.seconds() * (1 - 1e-9))) return false;
        found = {changed.web(), std::move(*priced)};
        estimate = changed.seconds();
        return true;
    };
    while (state.work() + exact < effort && descent.sweep(judge, effort)) {
    }
    work_ += state.work() + exact;
    take(found.web);
}

void SpinSearch::split_best(Seconds deadline) {
    for (auto &best : best_)
        if (best && best->seconds() <= best_seconds())
            best = split_layers(problem_, std::move(*best), deadline);
}

} // namespace spider::plan
