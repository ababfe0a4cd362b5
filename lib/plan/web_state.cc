// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/web_state.h"

#include "model/trainer.h"

#include <algorithm>
#include <numeric>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

} // namespace

WebState::WebState(const Problem &problem, const Shape &shape, Crossings &crossing)
    : problem_(problem), workload_(problem.workload(shape.tp)), batches_(problem.micro_batches(shape.dp())),
      rule_(problem.depth_rule()), blocking_(problem.blocking_sends()), dealer_(problem, shape),
      crossing_(crossing) {
    web_.shape = shape;
    work_ = 100 + 100ll * shape.stages * static_cast<std::int64_t>(problem.gpus().size()) +
            static_cast<std::int64_t>(problem.size()) * 2;
    used_.assign(problem.size(), 0), last_cell_.assign(problem.size(), 0);
    for (const auto &site : problem.sites())
        gpu_.push_back(static_cast<std::size_t>(site.gpu));
    for (std::size_t i = 0; i < problem.size(); ++i)
        sharing_ = sharing_ || problem.slots(static_cast<int>(i), shape.tp) >= 2 * shape.width;
    if (sharing_) crossing_.resize(problem.size() * problem.size());
    now_.tau.resize(index(shape.groups)), now_.pass.resize(index(shape.groups));
    now_.head_start.resize(index(shape.cells()));
    for (auto *all : {&now_.ring, &now_.ring_latency, &now_.local})
        all->resize(index(shape.stages));
    now_.ring_sites.resize(index(shape.stages)), now_.holes.resize(index(shape.stages));
    now_.gaps.resize(index(shape.groups));
    scratch_.stages.resize(index(shape.stages));
    scratch_.boundaries.resize(index(shape.stages - 1));
}

std::size_t WebState::pair_index(int a, int b) const {
    return index(std::min(a, b)) * problem_.size() + index(std::max(a, b));
}

std::size_t WebState::type_index(int stage, int site) const {
    return index(stage) * problem_.gpus().size() + gpu_[index(site)];
}

int WebState::cell_of(int site) const {
    if (used(site) == 0) return -1;
    const int last = last_cell_[index(site)];
    if (web_.cells[index(last)] == site) return last;
    return static_cast<int>(std::find(web_.cells.begin(), web_.cells.end(), site) - web_.cells.begin());
}

bool WebState::has_room(int site) const {
    return (used(site) + 1) * web_.shape.width <= problem_.slots(site, web_.shape.tp);
}

void WebState::cross(int a, int b, int by) {
    if (!sharing_) return;
    if (a != b) crossing_[pair_index(a, b)] = static_cast<std::uint16_t>(crossing_[pair_index(a, b)] + by);
}

WebState::~WebState() { leave(); }

// The cells go, and the table of crossings is clean again.
void WebState::leave() {
    const auto stages = index(web_.shape.stages);
    for (std::size_t i = 0; i < web_.cells.size(); ++i) {
        used_[index(web_.cells[i])] = 0;
        if (sharing_ && i % stages != 0) crossing_[pair_index(web_.cells[i - 1], web_.cells[i])] = 0;
    }
    web_.cells.clear();
}

void WebState::reset(std::vector<int> cells, std::vector<int> layers) {
    const int stages = web_.shape.stages;
    leave();
    web_.cells = std::move(cells);
    types_.assign(index(stages) * problem_.gpus().size(), 0);
    for (std::size_t i = 0; i < web_.cells.size(); ++i) {
        ++used_[index(web_.cells[i])];
        last_cell_[index(web_.cells[i])] = static_cast<int>(i);
        ++types_[type_index(static_cast<int>(i % index(stages)), web_.cells[i])];
        if (i % index(stages) != 0) cross(web_.cells[i - 1], web_.cells[i], 1);
    }
    if (layers.empty()) {
        deal_layers();
    } else {
        web_.layers = std::move(layers);
        time_stages();
    }
    estimate_all();
}

void WebState::place(int cell, int site) {
    const int stages = web_.shape.stages, stage = cell % stages;
    auto &here = web_.cells[index(cell)];
    const auto neighbours = [&](int by) {
        if (stage > 0) cross(web_.cells[index(cell - 1)], here, by);
        if (stage + 1 < stages) cross(here, web_.cells[index(cell + 1)], by);
    };
    neighbours(-1);
    --used_[index(here)];
    --types_[type_index(stage, here)];
    here = site;
    last_cell_[index(site)] = cell;
    ++used_[index(here)];
    ++types_[type_index(stage, here)];
    neighbours(1);
}

// Layers by the slowest member of each stage. False: nothing changed.
bool WebState::deal_layers() {
    auto layers = dealer_.deal(types_);
    if (layers.empty())
        layers = even_layers(workload_.layers(), web_.shape.stages); // it does not fit so either
    if (layers == web_.layers) return false;
    web_.layers = std::move(layers);
    time_stages();
    return true;
}

void WebState::time_stages() {
    times_.clear();
    int first = 0;
    for (const int count : web_.layers) {
        for (std::size_t gpu = 0; gpu < problem_.gpus().size(); ++gpu)
            times_.push_back(workload_.times(static_cast<int>(gpu), first, first + count - 1));
        first += count;
    }
    cap_depths();
}

void WebState::cap_depths() {
    caps_.assign(index(web_.shape.stages), batches_);
    const auto types = problem_.gpus().size();
    int first = 0;
    for (std::size_t i = 0; i < caps_.size(); ++i) {
        for (std::size_t gpu = 0; gpu < types; ++gpu)
            if (types_[i * types + gpu] > 0)
                caps_[i] =
                    std::min(caps_[i], workload_.depth_within(static_cast<int>(gpu), first,
                                                              first + web_.layers[i] - 1, web_.shape.dp()));
        first += web_.layers[i];
    }
    endless_ = *std::min_element(caps_.begin(), caps_.end()) >= batches_;
    overfull_ = 0;
    for (std::size_t i = 0; i < caps_.size(); ++i) {
        overfull_ +=
            caps_[i] < least_depth(problem_.spec(), static_cast<int>(i), web_.shape.stages, batches_);
        caps_[i] = std::max(caps_[i], 1);
    }
    if (rule_ != depth_fitted)
        falling_ = falling_depths(rule_ == depth_stages ? web_.shape.stages : rule_, caps_);
}

// Whether other groups' flows get faster or slower with this cell.
bool WebState::shares_links(int cell) const {
    if (!sharing_) return false;
    const int stages = web_.shape.stages, stage = cell % stages, here = web_.cells[index(cell)];
    const auto shared = [&](int other) { return here != other && crossing_[pair_index(here, other)] > 1; };
    return (stage > 0 && shared(web_.cells[index(cell - 1)])) ||
           (stage + 1 < stages && shared(web_.cells[index(cell + 1)]));
}

void WebState::change(std::span<const Change> changes, double limit) {
    work_ += 30 + 8 * static_cast<std::int64_t>(changes.size()) + web_.shape.cells() / 16;
    before_ = now_, undo_cells_.clear(), undo_layers_ = web_.layers;
    bool shared = false, retyped = false;
    for (const auto &[cell, site] : changes) {
        const int old = web_.cells[index(cell)];
        undo_cells_.emplace_back(cell, old);
        retyped = retyped || gpu_[index(old)] != gpu_[index(site)];
        shared = shared || shares_links(cell);
    }
    for (const auto &[cell, site] : changes)
        place(cell, site);
    for (const auto &[cell, site] : changes)
        shared = shared || shares_links(cell);
    if (retyped && !deal_layers()) cap_depths(); // other GPU types: other layers, other caps
    if (retyped || shared || changes.size() * 2 > index(web_.shape.cells())) return estimate_all();
    estimate_changed(changes, limit);
}

// Each site that must take part and does not gets the cell where it costs least. False: there is no such
// cell.
bool WebState::include_required() {
    for (int site = 0; site < static_cast<int>(problem_.size()); ++site) {
        if (!problem_.sites()[index(site)].required || used(site) > 0) continue;
        if (!has_room(site)) return false;
        int best = -1;
        double least = never;
        for (int cell = 0; cell < web_.shape.cells(); ++cell) {
            const int old = web_.cells[index(cell)];
            if (problem_.sites()[index(old)].required && used(old) < 2) continue;
            const Change try_it{cell, site};
            change({&try_it, 1});
            if (best < 0 || value() < least) best = cell, least = value();
            undo();
        }
        if (best < 0) return false;
        const Change do_it{best, site};
        change({&do_it, 1});
    }
    return true;
}

void WebState::move_layer(int from, int to) {
    before_ = now_, undo_cells_.clear(), undo_layers_ = web_.layers;
    --web_.layers[index(from)], ++web_.layers[index(to)];
    time_stages();
    estimate_all();
}

void WebState::undo() {
    for (auto change = undo_cells_.rbegin(); change != undo_cells_.rend(); ++change)
        place(change->first, change->second);
    undo_cells_.clear();
    if (undo_layers_ != web_.layers) {
        web_.layers = undo_layers_;
        time_stages();
    } else if (problem_.gpus().size() > 1) {
        cap_depths();
    }
    std::swap(now_, before_);
}

} // namespace spider::plan
