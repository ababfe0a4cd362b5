// SPDX-License-Identifier: GPL-3.0-or-later
// Local search on one web: the moves of SpinSearch, each kept if it lowers the value. Deterministic: chance
// comes from the seed, effort is counted in steps and not in seconds.
#pragma once

#include "plan/web_state.h"

#include <cstdint>
#include <functional>
#include <random>

namespace spider::plan {

class Descent {
  public:
    // `move_layers`: false leaves the layers as they were dealt.
    Descent(const Problem &problem, WebState &state, std::mt19937_64 &chance, bool move_layers = true);

    // Until no move helps, or the state has done `work` steps more.
    void run(std::int64_t work);
    void shuffle(); // the same sites in any cells
    // Simulated annealing for `work` steps from a heat of `hot` x the value; the state is then the best web
    // that it came through.
    void anneal(std::int64_t work, double hot);

    // Goes through all moves once more; `judge` says of each whether to keep it. Stops at `work`.
    using Judge = std::function<bool(const WebState &)>;
    bool sweep(const Judge &judge, std::int64_t until);

  private:
    bool exchanges(const Judge &judge, std::int64_t until);    // two cells
    bool replacements(const Judge &judge, std::int64_t until); // a site in, a site out
    bool spins(const Judge &judge, std::int64_t until);        // rotations of a ring, tails of two pipelines
    bool reversals(const Judge &judge,
                   std::int64_t until);                  // stretches of one pipeline, of all, rings swapped
    bool layers(const Judge &judge, std::int64_t until); // one layer from a stage to another
    bool attempt(const std::vector<Change> &changes, const Judge &judge);
    bool random_move(double limit); // false: no move this time
    bool random_tails();
    [[nodiscard]] int site_near(int cell);
    bool random_turn();
    bool random_reversal();
    [[nodiscard]] bool may_leave(int site) const;
    [[nodiscard]] int pick(int below);

    const Problem &problem_;
    WebState &state_;
    std::mt19937_64 &chance_;
    bool move_layers_;
    std::vector<Change> changes_;
    double limit_ = never; // moves above it need not be estimated to the end
};

} // namespace spider::plan
