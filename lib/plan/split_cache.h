// SPDX-License-Identifier: GPL-3.0-or-later
// What split_ilp() has proven, by the whole content of the problem. Owned by one search, used by one thread.
#pragma once

#include "plan/site_split.h"

#include <map>

namespace spider::plan {

class SplitCache {
  public:
    // split_ilp(), or what is known from before; the proof may have had another incumbent.
    SplitResult split(const SplitProblem &problem, Seconds incumbent, Seconds deadline);

    [[nodiscard]] int hits() const { return hits_; }

  private:
    struct Proof {
        Seconds incumbent = 0;
        std::optional<Split> split; // nullopt: nothing within the incumbent
    };
    std::map<SplitProblem, Proof> proofs_;
    int hits_ = 0;
};

} // namespace spider::plan
