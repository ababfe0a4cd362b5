// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/spinsearch.h"

#include "plan/descent.h"
#include "plan/weave.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// A slow core does about this many steps of WebState per second.
constexpr double steps_per_second = 100e6;
constexpr std::size_t most_drafts = 8;                       // shapes that are improved
constexpr std::size_t most_elite = 12;                       // webs that are priced exactly at the end
constexpr double weaving_share = 0.4, improving_share = 0.4; // of the budget; the rest settles

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

SpinSearch::SpinSearch(const Problem &problem, Seconds budget, std::uint64_t seed)
    : problem_(problem), budget_(static_cast<std::int64_t>(budget * steps_per_second)), chance_(seed) {
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
    if (problem_.size() < 2) return;
    weave_all();
    improve_best();
    settle();
}

Seconds SpinSearch::best_seconds() const {
    Seconds least = never;
    for (const auto &found : best_)
        if (found) least = std::min(least, found->seconds());
    return least;
}

std::int64_t SpinSearch::price_of(const Web &web) const {
    const std::int64_t batches = problem_.micro_batches(web.shape.dp());
    const std::int64_t stages = web.shape.stages, groups = web.shape.groups;
    return 2 * batches * web.shape.cells() + 20 * groups * stages * stages +
           200 * stages * std::min<std::int64_t>(groups, 9);
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
            if (best(Family::alone) && bound >= best(Family::alone)->seconds()) break;
            WebState state(problem_, shape, crossings_);
            state.reset(std::vector<int>(index(shape.cells()), site));
            work_ += state.work() + shape.stages * 4, ++evaluations_;
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
    elite_.push_back({state.web(), state.seconds(), 0});
    std::stable_sort(elite_.begin(), elite_.end(),
                     [](const Draft &a, const Draft &b) { return a.seconds < b.seconds; });
    if (elite_.size() > most_elite) elite_.pop_back();
}

std::optional<SpinSearch::Draft> SpinSearch::first_web(const Shape &shape, std::int64_t effort) {
    WebState state(problem_, shape, crossings_);
    std::optional<Draft> best;
    for (const int hub : hubs(shape, problem_.size() <= 8 ? 8 : 2)) {
        for (const auto thread : {Thread::radials, Thread::rings}) {
            if (thread == Thread::rings && (shape.groups == 1 || shape.stages == 1)) continue;
            auto cells = weave(problem_, shape, hub, thread);
            work_ += shape.cells() * static_cast<std::int64_t>(problem_.size());
            if (cells.empty()) continue;
            state.reset(std::move(cells));
            if (!include_required(state)) continue;
            ++evaluations_;
            if (!best || state.seconds() < best->seconds) best = Draft{state.web(), state.seconds(), 0};
        }
    }
    if (best && effort > 0) {
        state.reset(best->web.cells, best->web.layers);
        Descent(problem_, state, chance_).run(effort);
        *best = {state.web(), state.seconds(), 0};
    }
    work_ += state.work();
    return best;
}

void SpinSearch::weave_all() {
    const auto shapes = shapes_over_sites(problem_);
    const auto share =
        static_cast<std::int64_t>(static_cast<double>(budget_) * (shapes.size() < 4 ? 0.1 : weaving_share));
    const auto effort =
        share /
        std::max<std::int64_t>(1, std::min<std::int64_t>(static_cast<std::int64_t>(shapes.size()), 400)) / 2;
    const auto until = work_ + share;
    for (const auto &[shape, bound, estimate] : shapes) {
        if (work_ >= until && !drafts_.empty()) break;
        if (bound >= best_seconds()) continue;
        auto draft = first_web(shape, effort);
        if (!draft || !(draft->seconds < never)) continue;
        draft->bound = bound;
        drafts_.push_back(std::move(*draft));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft &a, const Draft &b) { return a.seconds < b.seconds; });
    // Every family's best is known exactly before the budget narrows to the best shapes.
    std::array<int, families> taken{};
    for (const auto &draft : drafts_)
        if (taken[static_cast<std::size_t>(family_of(draft.web))]++ < 2) take(draft.web);
}

void SpinSearch::improve(Draft &draft, std::int64_t effort) {
    WebState state(problem_, draft.web.shape, crossings_);
    Descent descent(problem_, state, chance_);
    state.reset(draft.web.cells, draft.web.layers);
    auto value = state.value();
    const auto bound = draft.bound;
    // Small webs are done before the budget is: so many rounds without a gain.
    const std::int64_t cells = draft.web.shape.cells();
    const auto round = std::min(effort * 4 / 5, 20'000 + 1000 * cells * cells);
    for (int idle = 0; idle < 4 && state.work() < effort; ++idle) {
        if (idle > 0) state.reset(draft.web.cells, draft.web.layers);
        descent.anneal(std::min(round, effort - state.work()));
        descent.run(effort - state.work());
        ++evaluations_;
        remember(state);
        if (!(state.value() < value * (1 - 1e-9))) continue;
        value = state.value(), idle = 0;
        draft = {state.web(), state.seconds(), bound};
    }
    work_ += state.work();
}

void SpinSearch::improve_best() {
    const auto share =
        static_cast<std::int64_t>(static_cast<double>(budget_) * (weaving_share + improving_share)) - work_;
    if (drafts_.size() > most_drafts) drafts_.resize(most_drafts);
    // The better half gets twice the effort.
    std::int64_t left = std::max<std::int64_t>(share, 0);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
        const auto before = work_;
        improve(drafts_[i],
                left / (i == 0 ? std::min<std::int64_t>(2, static_cast<std::int64_t>(drafts_.size()))
                               : static_cast<std::int64_t>(drafts_.size() - i)));
        left -= std::min(left, work_ - before);
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
    Descent descent(problem_, state, chance_);
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

} // namespace spider::plan
