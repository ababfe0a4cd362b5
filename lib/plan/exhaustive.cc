// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/exhaustive.h"

#include "model/trainer.h"
#include "plan/dealer.h"
#include "plan/shapes.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Sites that may be exchanged without any web costing more or less: alike themselves, and to all others.
bool alike(const Problem &problem, int a, int b) {
    const auto &one = problem.sites()[index(a)], &other = problem.sites()[index(b)];
    if (one.gpu != other.gpu || one.pool.nodes != other.pool.nodes || one.routable != other.routable ||
        one.required || other.required || one.lan_bandwidth != other.lan_bandwidth ||
        one.lan_latency != other.lan_latency)
        return false;
    const auto same = [&](int from, int to, int other_from, int other_to) {
        const auto &hop = problem.hop(from, to), &then = problem.hop(other_from, other_to);
        const auto shared = [&](int i, int j) { // with flows of other pairs of sites
            const auto id = [&](int site) { return problem.sites()[index(site)].pool.site; };
            return problem.federation().resources(id(i), id(j)).size() > 1;
        };
        return hop.latency == then.latency && hop.seconds_per_byte == then.seconds_per_byte &&
               hop.seconds_per_shared_byte == then.seconds_per_shared_byte && !shared(from, to) &&
               !shared(other_from, other_to);
    };
    for (int k = 0; k < static_cast<int>(problem.size()); ++k)
        if (k != a && k != b && !(same(a, k, b, k) && same(k, a, k, b))) return false;
    return same(a, b, b, a);
}

double count_of_splits(int layers, int stages) { // of `layers` in a row into stages of at least one
    double count = 1;
    for (int i = 1; i < stages; ++i)
        count *= static_cast<double>(layers - i) / i;
    return count;
}

// The next way to deal the layers; false after the last. Begins and ends with one layer per stage but one.
bool next_split(std::vector<int> &layers) {
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
        if (layers[i] == 1) continue;
        const int rest = layers[i] - 2;
        layers[i] = 1;
        ++layers[i + 1];
        layers[0] += rest;
        return true;
    }
    return false;
}

class Enumeration {
  public:
    Enumeration(const Problem &problem, std::int64_t most_steps)
        : problem_(problem), most_steps_(most_steps), alike_before_(problem.size()) {
        for (int i = 0; i < static_cast<int>(problem.size()); ++i)
            for (int j = 0; j < i; ++j)
                if (alike(problem, j, i)) alike_before_[index(i)].push_back(j);
    }

    // Goes through the webs of one shape and family, or counts them up to `most`.
    void price_all(const Shape &shape, Family family, bool every_split);
    std::int64_t count_all(const Shape &shape, Family family, std::int64_t most);
    Finds finds() && { return std::move(finds_); }
    [[nodiscard]] bool is_complete() const { return most_steps_ == 0 || steps_ <= most_steps_; }

  private:
    void begin(const Shape &shape, Family family);
    void extend(Seconds pass, Seconds bound);
    void finish();
    void take();
    [[nodiscard]] bool may_take(int site) const;
    // A pipeline's cells up to the last one: the least it takes, in one pass and in all.
    [[nodiscard]] std::pair<Seconds, Seconds> lengthened(Seconds pass, Seconds bound) const;
    [[nodiscard]] std::vector<int> dealt() const;

    const Problem &problem_;
    std::int64_t most_steps_, steps_ = 0;
    std::vector<std::vector<int>> alike_before_; // by site: those that come before it wherever both could
    Finds finds_;
    Family family_ = Family::both;
    Web web_; // so far
    std::vector<int> used_;
    const LayerDealer *dealer_ = nullptr; // nullptr: the layers are given
    std::vector<Times> times_;            // per stage and GPU type; empty: not known until the cells are
    std::int64_t count_ = 0, most_ = 0;   // most > 0: only count
};

void Enumeration::begin(const Shape &shape, Family family) {
    family_ = family;
    web_ = {shape, {}, {}};
    used_.assign(problem_.size(), 0);
}

// Slots, links, the family's own pattern, and one order of pipelines and of sites that are alike.
bool Enumeration::may_take(int site) const {
    const auto &shape = web_.shape;
    const auto cell = web_.cells.size(), stages = index(shape.stages);
    if (used_[index(site)] >= problem_.slots(site, shape.tp)) return false;
    const bool starts = cell % stages == 0;
    if (!starts && web_.cells.back() != site && !problem_.linked(web_.cells.back(), site)) return false;
    if (family_ == Family::alone && cell == 0 && problem_.home() >= 0 && site != problem_.home())
        return false;
    if (!starts && (family_ == Family::alone || family_ == Family::data) && site != web_.cells.back())
        return false;
    if (cell >= stages) {
        const int above = web_.cells[cell - stages];
        if ((family_ == Family::alone || family_ == Family::pipeline) && site != above) return false;
        const auto own = web_.cells.end() - static_cast<std::ptrdiff_t>(cell % stages);
        if (site < above && std::equal(own, web_.cells.end(), own - shape.stages)) return false;
    }
    return used_[index(site)] > 0 ||
           std::all_of(alike_before_[index(site)].begin(), alike_before_[index(site)].end(),
                       [&](int other) { return used_[index(other)] > 0; });
}

// No schedule starts a stage before its first input came, works on two micro-batches there at once, or ends
// before the last gradient is back at the first stage; and a link carries one message at a time.
std::pair<Seconds, Seconds> Enumeration::lengthened(Seconds pass, Seconds bound) const {
    const auto cell = web_.cells.size() - 1, stage = cell % index(web_.shape.stages);
    const int batches = problem_.micro_batches(web_.shape.dp()), here = web_.cells[cell];
    if (stage == 0) pass = 0;
    if (stage > 0 && here != web_.cells[cell - 1]) {
        const int before = web_.cells[cell - 1];
        const auto bytes = problem_.workload(web_.shape.tp).boundary();
        const auto &there = problem_.hop(before, here), &back = problem_.hop(here, before);
        const auto out = bytes * there.seconds_per_byte, in = bytes * back.seconds_per_byte;
        pass += there.latency + back.latency + out + in;
        bound = std::max(bound, pass + (batches - 1) * std::max(out, in));
    }
    if (!times_.empty()) {
        const auto time =
            times_[stage * problem_.gpus().size() + index(problem_.sites()[index(here)].gpu)].both();
        pass += time;
        bound = std::max(bound, pass + (batches - 1) * time);
    }
    return {pass, std::max(bound, pass)};
}

void Enumeration::extend(Seconds pass, Seconds bound) {
    if (most_steps_ > 0 && steps_ > most_steps_) return;
    if (most_ > 0 && ++count_ > most_) return;
    if (web_.cells.size() == index(web_.shape.cells())) return finish();
    for (int site = 0; site < static_cast<int>(problem_.size()); ++site) {
        if (!may_take(site)) continue;
        web_.cells.push_back(site), ++used_[index(site)];
        const auto [longer, higher] = most_ > 0 ? std::pair(pass, bound) : lengthened(pass, bound);
        const auto &best = finds_.best[static_cast<std::size_t>(family_)];
        if (!best || higher < best->seconds()) extend(longer, higher);
        web_.cells.pop_back(), --used_[index(site)];
    }
}

void Enumeration::finish() {
    if (most_ > 0) return;
    if (family_of(web_) != family_) return; // another pass has it
    for (std::size_t i = 0; i < problem_.size(); ++i)
        if (family_ != Family::alone && problem_.sites()[i].required && used_[i] == 0) return;
    if (!dealer_) return take();
    web_.layers = dealt();
    if (!web_.layers.empty()) take();
}

std::vector<int> Enumeration::dealt() const {
    const auto types = problem_.gpus().size();
    std::vector<int> cells(index(web_.shape.stages) * types, 0);
    for (std::size_t i = 0; i < web_.cells.size(); ++i)
        ++cells[i % index(web_.shape.stages) * types + index(problem_.sites()[index(web_.cells[i])].gpu)];
    return dealer_->deal(cells);
}

void Enumeration::take() {
    ++finds_.evaluations, steps_ += price_steps(problem_, web_.shape);
    auto priced = price(problem_, web_);
    auto &best = finds_.best[static_cast<std::size_t>(family_)];
    if (priced &&
        (!best || std::tuple(priced->iteration.seconds, web_) < std::tuple(best->seconds(), best->web)))
        best = Found{web_, std::move(*priced)};
}

std::int64_t Enumeration::count_all(const Shape &shape, Family family, std::int64_t most) {
    begin(shape, family);
    count_ = 0, most_ = most;
    extend(0, 0);
    most_ = 0;
    return count_;
}

void Enumeration::price_all(const Shape &shape, Family family, bool every_split) {
    begin(shape, family);
    const auto &workload = problem_.workload(shape.tp);
    const auto given = [&](std::vector<int> layers) {
        times_.clear();
        int first = 0;
        for (const int count : layers) {
            for (std::size_t gpu = 0; gpu < problem_.gpus().size(); ++gpu)
                times_.push_back(workload.times(static_cast<int>(gpu), first, first + count - 1));
            first += count;
        }
        web_.layers = std::move(layers);
    };
    const LayerDealer dealer(problem_, shape);
    dealer_ = every_split ? nullptr : &dealer;
    times_.clear();
    if (!every_split) {
        // Of one GPU type every web has the same layers.
        auto layers = dealer.deal(std::vector<int>(index(shape.stages), shape.groups));
        if (problem_.gpus().size() > 1) return extend(0, 0);
        if (layers.empty()) return;
        dealer_ = nullptr, given(std::move(layers));
        return extend(0, 0);
    }
    std::vector<int> layers(index(shape.stages), 1);
    layers.front() = workload.layers() - shape.stages + 1;
    do {
        given(layers);
        extend(0, 0);
    } while (next_split(layers));
}

std::vector<Shape> shapes_of(const Problem &problem) {
    std::vector<Shape> shapes;
    for (const int tp : problem.tensor_sizes()) {
        int slots = 0;
        for (int site = 0; site < static_cast<int>(problem.size()); ++site)
            slots += problem.slots(site, tp);
        const int layers = problem.workload(tp).layers();
        const auto &fixed = problem.spec().pp;
        for (const int dp : data_sizes(problem.spec(), slots))
            for (int stages = fixed.value_or(1); stages <= fixed.value_or(layers); ++stages)
                if (stages <= layers && (layers % stages == 0 || !wants_even_layers(problem.spec())) &&
                    std::int64_t{stages} * dp <= slots)
                    shapes.push_back({tp, stages, dp, 1});
    }
    return shapes;
}

constexpr std::array all_families{Family::alone, Family::pipeline, Family::data, Family::both};

} // namespace

Result<Finds> search_everything(const Problem &problem, const Extent &extent) {
    Enumeration webs(problem, extent.most_steps);
    const auto shapes = shapes_of(problem);
    const bool every_split = extent.every_layer_split && !wants_even_layers(problem.spec());
    double count = 0;
    for (const auto &shape : shapes) {
        const auto splits =
            every_split ? count_of_splits(problem.workload(shape.tp).layers(), shape.stages) : 1;
        for (const auto family : all_families) {
            count += splits * static_cast<double>(webs.count_all(shape, family, extent.most_webs));
            if (count > static_cast<double>(extent.most_webs))
                return Error{Errc::invalid, "exhaustive: more than " + std::to_string(extent.most_webs) +
                                                " webs; fix tp, pp and dp, or name fewer sites"};
        }
    }
    for (const auto &shape : shapes)
        for (const auto family : all_families)
            webs.price_all(shape, family, every_split);
    if (!webs.is_complete())
        return Error{Errc::invalid, "exhaustive: more than " + std::to_string(extent.most_steps) + " steps"};
    return std::move(webs).finds();
}

Result<Plan> exhaustive(const Federation &federation, const JobSpec &spec, const Options &options) {
    const auto find = [](const Problem &problem, Seconds) { return search_everything(problem); };
    return compare("exhaustive", find, federation, spec, options);
}

} // namespace spider::plan
