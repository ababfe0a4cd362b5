// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/spinsearch.h"

#include "plan/descent.h"
#include "plan/exhaustive.h"
#include "plan/tpa.h"
#include "plan/weave.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Steps are of about ten instructions; a slow core does so many per second.
constexpr double steps_per_second = 165e6;
constexpr std::size_t most_drafts = 16;  // shapes that are improved
constexpr std::size_t most_elite = 12;   // webs that are priced exactly at the end
constexpr Seconds split_deadline = 0.05; // of all integer programs; they are usually done in one
constexpr std::size_t few_sites = 8;     // all are hubs
constexpr std::size_t more_hubs = 4;
constexpr int least_patience = 6; // rounds of annealing without a gain; and one more per cell
// Where annealing begins, relative to the web's value.
constexpr std::array heats{0.012, 0.05, 0.25};
constexpr std::int64_t most_enumerated = 100'000;                 // webs, begun ones counted
constexpr double enumerated_share = 0.3, enumerating_share = 0.8; // of the budget
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
    must_cross_ = std::count_if(problem.sites().begin(), problem.sites().end(),
                                [](const Ground &site) { return site.required; }) > 1;
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
        enumerate();
        weave_all();
        improve_best();
        settle();
    }
    if (move_layers_) split_best(split_deadline);
    begin_at_home();
}

std::int64_t SpinSearch::share_of(double share) const {
    return static_cast<std::int64_t>(static_cast<double>(budget_) * share);
}

bool SpinSearch::faster(const Draft &a, const Draft &b) { return a.rank < b.rank; }

Seconds SpinSearch::best_seconds() const {
    Seconds least = never;
    for (const auto &found : best_)
        if (found) least = std::min(least, found->seconds());
    return least;
}

// No web over several sites whose bound is above this is of interest: it is slower than one that is known.
// One site alone counts only where it may be the plan, and not before there is a web over several to compare
// it with.
Seconds SpinSearch::worth_trying() const {
    Seconds least = never, over = never;
    for (std::size_t i = 0; i < families; ++i) {
        if (!best_[i]) continue;
        least = std::min(least, best_[i]->seconds());
        if (static_cast<Family>(i) != Family::alone) over = std::min(over, best_[i]->seconds());
    }
    return must_cross_ || over == never ? over : least;
}

void SpinSearch::take(const Web &web) {
    work_ += price_steps(problem_, web.shape), ++evaluations_;
    auto priced = price(problem_, web);
    if (!priced) return;
    auto &best = best_[static_cast<std::size_t>(family_of(web))];
    const auto seconds = priced->iteration.seconds;
    if (!best || std::tuple(seconds, web) < std::tuple(best->seconds(), best->web))
        best = Found{web, std::move(*priced)};
}

// Where there are few webs, all of them: what follows then only moves layers.
void SpinSearch::enumerate() {
    if (problem_.size() > few_sites) return;
    const auto steps = share_of(enumerating_share);
    const auto all = search_everything(problem_, {.every_layer_split = false,
                                                  .most_webs = std::min(most_enumerated, steps / 20 + 1),
                                                  .most_steps = steps + 1});
    enumerated_ = all.ok();
    if (!all) {
        work_ += steps / 4; // more or less: counting them, and some prices
        return;
    }
    evaluations_ += all->evaluations;
    for (const auto &found : all->best) {
        if (!found) continue;
        work_ += price_steps(problem_, found->web.shape) * std::max<std::int64_t>(1, all->evaluations / 4);
        take(found->web);
        if (family_of(found->web) != Family::alone)
            drafts_.push_back({found->web, found->seconds(), found->seconds(), 0});
    }
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

void SpinSearch::remember(const WebState &state) {
    if (!(state.seconds() < never)) return;
    if (elite_.size() == most_elite && state.seconds() >= elite_.back().seconds) return;
    for (const auto &known : elite_)
        if (known.web == state.web()) return;
    elite_.push_back({state.web(), state.seconds(), state.rank(), 0});
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
            if (!state.include_required()) continue;
            if (!best || state.rank() < best->rank)
                best = Draft{state.web(), state.seconds(), state.rank(), 0};
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
        if (bound >= worth_trying()) continue;
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
    auto rank = state.rank();
    const auto bound = draft.bound;
    const std::int64_t cells = draft.web.shape.cells();
    auto round = 3'000 + std::min<std::int64_t>(4000, 60 * cells) * cells * cells;
    // Few sites are done before the budget is; with many there is always more to find.
    const auto patience = problem_.size() <= few_sites ? least_patience + cells : effort;
    for (std::int64_t idle = 0; idle < patience && state.work() < effort; ++idle) {
        if (idle > 0) state.reset(draft.web.cells, draft.web.layers);
        // Near the best web, then farther from it, then from anywhere; the longer, the less that brings.
        if (idle > 0 && idle % 12 == 0) round *= 2;
        if (idle % 3 == 2) descent.shuffle();
        descent.anneal(std::min({round, effort * 4 / 5, effort - state.work()}),
                       heats[static_cast<std::size_t>(idle % 3)]);
        descent.run(effort - state.work());
        ++evaluations_;
        remember(state);
        if (!(state.rank() < rank * (1 - 1e-9))) continue;
        rank = state.rank(), idle = -1;
        draft = {state.web(), state.seconds(), rank, bound};
    }
    work_ += state.work();
}

// Successive halving: every round has the same effort for half as many shapes.
void SpinSearch::improve_best() {
    std::erase_if(drafts_, [&](const Draft &draft) { return draft.bound >= worth_trying(); });
    if (drafts_.size() > most_drafts) drafts_.resize(most_drafts);
    for (auto &draft : drafts_) { // from more hubs, now that few are left
        auto other = problem_.size() > few_sites ? first_web(draft.web.shape, more_hubs) : std::nullopt;
        if (other && other->rank < draft.rank) draft = {other->web, other->seconds, other->rank, draft.bound};
    }
    std::size_t rounds = 1; // the last one for two
    while ((std::size_t{2} << rounds) <= drafts_.size())
        ++rounds;
    auto all = std::max<std::int64_t>(0, share_of(1 - settling_share) - work_);
    if (enumerated_) all = std::min(all, share_of(enumerated_share)); // only layers are left to find
    for (std::size_t round = 0; round < rounds && !drafts_.empty(); ++round) {
        const auto effort = all / static_cast<std::int64_t>(rounds * drafts_.size());
        for (auto &draft : drafts_)
            improve(draft, effort);
        std::stable_sort(drafts_.begin(), drafts_.end(), faster);
        if (drafts_.size() > 2) drafts_.resize((drafts_.size() + 1) / 2);
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
        exact += price_steps(problem_, changed.web().shape), ++evaluations_;
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

// Of plans that are as fast, the one whose first rank is at home: there the user looks first.
void SpinSearch::begin_at_home() {
    for (auto &best : best_) {
        if (!best || problem_.home() < 0 || best->web.at(0, 0) == problem_.home()) continue;
        const auto stages = static_cast<std::ptrdiff_t>(best->web.shape.stages);
        for (const bool turned : {false, true}) {
            auto web = best->web;
            for (auto cell = web.cells.begin(); turned && cell != web.cells.end(); cell += stages)
                std::reverse(cell, cell + stages);
            auto cell = web.cells.begin();
            while (cell != web.cells.end() && *cell != problem_.home())
                cell += stages;
            if (cell == web.cells.end()) continue;
            std::swap_ranges(web.cells.begin(), web.cells.begin() + stages, cell);
            auto priced = price(problem_, web);
            if (!priced || priced->iteration.seconds > best->seconds() * (1 + 1e-9)) continue;
            best = Found{std::move(web), std::move(*priced)};
            break;
        }
    }
}

void SpinSearch::split_best(Seconds deadline) {
    for (auto &best : best_)
        if (best && best->seconds() <= best_seconds())
            best = split_layers(problem_, std::move(*best), deadline);
}

} // namespace spider::plan
