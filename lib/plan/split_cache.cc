// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/split_cache.h"

namespace spider::plan {

namespace {

// Beyond it all is forgotten: some 20 kB each at 8 stages, 3 classes, 40 layers, 3 options.
constexpr std::size_t most_proofs = 1024;

} // namespace

SplitResult SplitCache::split(const SplitProblem &problem, Seconds incumbent, Seconds deadline) {
    if (!trouble_with(problem).empty())
        return split_ilp(problem, incumbent, deadline); // NaN has no place in order
    if (const auto known = proofs_.find(problem); known != proofs_.end()) {
        const auto &[tried, split] = known->second;
        if (split && split->slowest <= incumbent)
            return ++hits_, SplitResult{ilp::Outcome::optimal, split, 0, {}};
        if (split || incumbent <= tried) return ++hits_, SplitResult{ilp::Outcome::infeasible, {}, 0, {}};
    }
    auto result = split_ilp(problem, incumbent, deadline);
    if (result.outcome != ilp::Outcome::optimal && result.outcome != ilp::Outcome::infeasible) return result;
    if (proofs_.size() >= most_proofs) proofs_.clear();
    proofs_[problem] = {incumbent, result.split};
    return result;
}

} // namespace spider::plan
