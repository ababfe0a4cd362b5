// SPDX-License-Identifier: GPL-3.0-or-later
// When each forward and backward of a pipeline begins and ends: what stage_ends() runs through, kept. Pure.
#pragma once

#include "plan/pipeline.h"

#include <span>
#include <vector>

namespace spider::plan {

struct Block {
    int stage = 0;
    int micro_batch = 0;
    bool backward = false;
    Seconds begin = 0, end = 0;
};

// Those of the first `head` and the last `tail` micro-batches, in order of time at each stage. Depths as for
// period().
std::vector<Block> timeline(const Pipeline &pipeline, std::span<const int> depths, int micro_batches,
                            int head, int tail);

} // namespace spider::plan
