// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/baselines/baselines.h"
#include "plan/baselines/dealt.h"

namespace spider::plan {

Result<Plan> rank_order(const Federation &federation, const JobSpec &spec, const Options &options) {
    const auto in_order = [](const Problem &problem, const Shape &shape, std::int64_t &) {
        auto slots = all_slots(problem, shape.tp);
        slots.resize(static_cast<std::size_t>(shape.cells()));
        return slots;
    };
    const auto find = [&](const Problem &problem, Seconds) -> Result<Finds> {
        return place_all(problem, in_order);
    };
    return compare("rank", find, federation, with_published_depth(spec), options);
}

} // namespace spider::plan
