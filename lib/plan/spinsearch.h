// SPDX-License-Identifier: GPL-3.0-or-later
// SpinSearch, level 1 of the planner: where the cells of the web go. Webs of all shapes are woven from hub
// sites, the promising ones improved by local moves (exchanges, spins of a ring, reversals, sites in and out,
// layers), and the best judged by the exact price. Our own reading of the published abstract. Anytime and
// deterministic: effort is counted in steps, so that the same input gives the same plan on any machine.
#pragma once

#include "plan/price.h"
#include "plan/shapes.h"
#include "plan/web_state.h"

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace spider::plan {

enum class Family {
    alone,    // one site
    pipeline, // every stage at one site, pipelines cross
    data,     // every pipeline at one site, stages are at several
    both,
};
constexpr std::size_t families = 4;
Family family_of(const Web &web);
std::string_view name(Family family); // "pipeline over sites"

struct Found {
    Web web;
    Priced priced;
    [[nodiscard]] Seconds seconds() const { return priced.iteration.seconds; }
};

class SpinSearch {
  public:
    // `budget`: seconds on a slow core, counted as steps. `move_layers`: false keeps layers as speed and
    // memory deal them, to show what moving them brings.
    SpinSearch(const Problem &problem, Seconds budget, std::uint64_t seed, bool move_layers = true);

    void run();

    // The fastest found of each family.
    [[nodiscard]] const std::optional<Found> &best(Family family) const {
        return best_[static_cast<std::size_t>(family)];
    }
    [[nodiscard]] std::int64_t evaluations() const { return evaluations_; } // webs estimated or priced
    [[nodiscard]] std::int64_t work() const { return work_; }
    [[nodiscard]] bool enumerated() const { return enumerated_; } // every web was looked at, layers as dealt

  private:
    struct Draft {
        Web web;
        Seconds seconds = never; // estimate
        double rank = never;     // WebState::rank()
        Seconds bound = 0;
    };

    void search_alone();
    void enumerate();
    void weave_all();
    void improve_best();
    void settle();
    std::optional<Draft> first_web(const Shape &shape, std::size_t most_hubs);
    void improve(Draft &draft, std::int64_t effort);
    void polish(Found found, std::int64_t effort);
    void split_best(Seconds deadline); // TPA
    void begin_at_home();
    void take(const Web &web);         // price it and keep it if it is the best of its family
    void remember(const WebState &state);
    static bool faster(const Draft &a, const Draft &b);
    [[nodiscard]] std::int64_t share_of(double share) const; // steps
    [[nodiscard]] Seconds best_seconds() const;
    [[nodiscard]] Seconds worth_trying() const;
    [[nodiscard]] std::vector<int> hubs(const Shape &shape, std::size_t most) const;

    const Problem &problem_;
    std::int64_t budget_;
    bool move_layers_;
    bool must_cross_ = false; // more than one site must take part
    std::mt19937_64 chance_;
    Crossings crossings_;
    std::vector<int> closeness_; // sites, the most central first
    std::vector<Draft> drafts_;
    std::vector<Draft> elite_; // the best estimates of all shapes, distinct
    std::array<std::optional<Found>, families> best_;
    bool enumerated_ = false;
    std::int64_t evaluations_ = 0;
    std::int64_t work_ = 0;
};

} // namespace spider::plan
