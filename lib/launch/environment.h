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
// between nodes), LAYERS ("first-last" per stage, ',' between), DEPTHS (per stage), MICROBATCH, MICROBATCHES,
// RECOMPUTE, NODE_RANKS (of this part's nodes; nodes count by their lowest rank), NNODES (in all parts),
// MASTER_SITE, TRAINER, LAUNCHER, and what the trainer is told: ARGS (a blank between), FILE_1, … ("NAME
// TEXT", TEXT through util::escape_line). MASTER is not among them: it comes with the word. The plan is one
// that render() takes.
Environment carriers(const Plan &plan, const Part &part, const std::string &job, int attempt);

// Errc::invalid: the plan's trainer cannot run it, or it is too large for a job's environment.
Result<void> can_launch(const Plan &plan);

// The size of a part as Slurm options want it.
struct Size {
    int nodes = 0;
    int tasks = 0;          // a task for each GPU, or with torchrun for each node
    int tasks_per_node = 0; // on the fullest node
    int gpus_per_node = 0;  // on the fullest node
};
Size size_of(const Plan &plan, const Part &part);

} // namespace spider::launch
