// SPDX-License-Identifier: GPL-3.0-or-later
// The side of srun: gives the step the plan's shape. Runs as the user, in srun alone.
#pragma once

#include "spank/carriers.h"
#include "spank/settings.h"

#include <string>
#include <utility>
#include <vector>

namespace spider::spank {

// What the user asked of srun, or the job's environment says: Slurm's texts; empty = not set.
struct Geometry {
    std::string nodes;
    std::string ntasks;
    std::string
        job_ntasks; // SLURM_NTASKS: Slurm's own count, nodes times the fullest node's tasks in an uneven job
    bool own_nodes = false; // --nodelist, --relative, --exclude, …: nodes picked by hand
};

// No geometry, or the job's own: the step is the plan's, and the plugin may shape it.
bool is_the_plans(const Geometry &geometry, const Carriers &carriers);

// Options for Slurm's table: as many tasks on each node as the plan has, in the plan's order.
Result<std::vector<std::pair<std::string, std::string>>> shape(const Carriers &carriers,
                                                               const std::string &node_list);

void before_step(const Asked &asked);

} // namespace spider::spank
