// SPDX-License-Identifier: GPL-3.0-or-later
// Plan -> the carriers SLURM_SPIDERFLOW_* that take one part's share from the site to its tasks. Pure.
#pragma once

#include "model/plan.h"
#include "util/result.h"

#include <string>
#include <utility>
#include <vector>

namespace spider::launch {

using Environment = std::vector<std::pair<std::string, std::string>>;

// JOB, ATTEMPT, SITE, WORLD, TP, PP, DP, SLOTS ("stage.dp" per slot in node order, ',' between slots, '/'
// between nodes), LAYERS ("first-last" per stage, ',' between), NODE_BASE (nodes in the parts before this
// one), NNODES (in all parts). MASTER is not among them: it comes with the word.
Environment carriers(const Plan &plan, const Part &part, const std::string &job, int attempt);

// The size of a part as Slurm options want it.
struct Size {
    int nodes = 0;
    int tasks = 0;
    int tasks_per_node = 0; // on the fullest node
    int gpus_per_node = 0;  // on the fullest node
};
Size size_of(const Plan &plan, const Part &part);

} // namespace spider::launch
