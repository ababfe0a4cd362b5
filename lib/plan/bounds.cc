// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/bounds.h"

#include "plan/cost.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace spider::plan {

Seconds iteration_bound(std::span<const Pool> pools, const JobSpec &spec) {
    std::vector<const Pool *> fastest;
    const auto micro_batch = [&](const Pool &pool, int tp) {
        return spec.model.layers * layer_times(spec, pool.gpu, tp).both() +
               head_times(spec, pool.gpu, tp).both();
    };
    Seconds alone = std::numeric_limits<double>::infinity();
    for (const auto &pool : pools) {
        if (pool.nodes.empty()) continue;
        fastest.push_back(&pool);
        alone = std::min(alone, micro_batch(pool, 1) / pool.nodes.front().gpus);
    }
    std::stable_sort(fastest.begin(), fastest.end(),
                     [&](const Pool *a, const Pool *b) { return micro_batch(*a, 1) < micro_batch(*b, 1); });
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    if (spec.tp && spec.pp && spec.dp) left = std::int64_t{*spec.tp} * *spec.pp * *spec.dp;
    double rate = 0; // micro-batches per second, without tensor parallelism's all-reduces
    for (const auto *pool : fastest) {
        const auto gpus = std::min<std::int64_t>(left, gpus_in(*pool));
        rate += static_cast<double>(gpus) / micro_batch(*pool, 1);
        left -= gpus;
    }
    if (rate == 0) return 0;
    return std::max(spec.global_batch / spec.micro_batch / rate, alone);
}

} // namespace spider::plan
