// SPDX-License-Identifier: GPL-3.0-or-later
// Which process groups of a plan go from site to site. Pure.
#pragma once

#include "model/plan.h"

#include <vector>

namespace spider::launch {

class Sites {
  public:
    explicit Sites(const Plan &plan);
    [[nodiscard]] int of(int stage, int dp) const { // index of the part
        return parts_[static_cast<std::size_t>(stage * dp_ + dp)];
    }
    [[nodiscard]] bool pipelines_cross() const; // the stages of some pipeline
    [[nodiscard]] bool members_cross() const;   // the members of some stage
    [[nodiscard]] bool ends_cross() const;      // first and last stage of some pipeline
    // The largest number of members, a divisor of dp, so that in every stage each such block is at one site.
    [[nodiscard]] int members_together() const;

  private:
    int pp_, dp_;
    std::vector<int> parts_; // stage by stage
};

} // namespace spider::launch
