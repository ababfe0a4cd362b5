// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/crossing.h"

namespace spider::launch {

Sites::Sites(const Plan &plan)
    : pp_(plan.pp), dp_(plan.dp),
      parts_(static_cast<std::size_t>(plan.pp) * static_cast<std::size_t>(plan.dp)) {
    for (std::size_t p = 0; p < plan.parts.size(); ++p)
        for (const auto &node : plan.parts[p].nodes)
            for (const auto &slot : node)
                parts_[static_cast<std::size_t>(slot.stage * dp_ + slot.dp)] = static_cast<int>(p);
}

bool Sites::pipelines_cross() const {
    for (int d = 0; d < dp_; ++d)
        for (int i = 1; i < pp_; ++i)
            if (of(i, d) != of(0, d)) return true;
    return false;
}

bool Sites::members_cross() const { return members_together() < dp_; }

bool Sites::ends_cross() const {
    for (int d = 0; d < dp_; ++d)
        if (of(0, d) != of(pp_ - 1, d)) return true;
    return false;
}

int Sites::members_together() const {
    const auto together = [&](int block) {
        for (int i = 0; i < pp_; ++i)
            for (int d = 0; d < dp_; ++d)
                if (of(i, d) != of(i, d - d % block)) return false;
        return true;
    };
    for (int block = dp_; block > 1; --block)
        if (dp_ % block == 0 && together(block)) return block;
    return 1;
}

} // namespace spider::launch
