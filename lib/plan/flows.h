// SPDX-License-Identifier: GPL-3.0-or-later
// Flows between sites that run at the same time, and what a byte of each then costs.
#pragma once

#include "plan/problem.h"

#include <vector>

namespace spider::plan {

class Flows {
  public:
    explicit Flows(const Problem &problem) : problem_(problem) {}

    // `count` equal flows; the answer names them to seconds_per_byte().
    std::size_t add(int from, int to, int count);
    void share(); // once, after the last add()
    [[nodiscard]] double seconds_per_byte(std::size_t flow) const { return costs_[flow]; }

  private:
    struct Flow {
        int from = 0, to = 0, count = 1;
    };
    [[nodiscard]] SiteId id(int site) const;
    void share_pairs();
    void share_everything();

    const Problem &problem_;
    std::vector<Flow> flows_;
    std::vector<double> costs_;
};

} // namespace spider::plan
