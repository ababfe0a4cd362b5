// SPDX-License-Identifier: GPL-3.0-or-later
// What a site can give now, under the user's limits: free GPUs node by node, of one type (a part is one Slurm
// job).
#pragma once

#include "federation/federation.h"
#include "model/job_spec.h"

namespace spider::plan {

struct FreeNode {
    int gpus = 0; // free and within the limits
    int of = 0;   // GPUs of the node in all: TP divides it
    auto operator<=>(const FreeNode &) const = default;
};

struct Pool {
    SiteId site;
    std::string name;
    GpuType gpu;
    std::vector<FreeNode> nodes; // most free GPUs first
    int max_nodes = 0;           // limits of the job at this site; 0 = none
    int max_tasks = 0;
};

// The GPU type with the most free FLOP/s at the site; a pool without nodes when nothing is free.
Pool pool_of(const Site &site, const Limits &limits);

// The site `after` seconds from now, when jobs that run there have ended.
Site as_of(Site site, Seconds after);

// "" when the site may carry a part, else why not: "is stale: HTTP 503", "is in state DRAIN".
std::string trouble_with(const Site &site);

int gpus_in(const Pool &pool);                            // that one Slurm job can have
std::vector<int> slots_by_node(const Pool &pool, int tp); // most first
// A Slurm job asks for the same number of GPUs on each of its nodes: nodes of 8 and 2 GPUs give 8, or 2
// and 2.
int slots_in(const Pool &pool, int tp);

// Slots per node for `slots` slots: few nodes, the same number on each if that is possible. Empty: they do
// not fit.
std::vector<int> spread(const Pool &pool, int tp, int slots);

// "--nodes=1 --gres=gpu:1", as the user gave them; "" without limits.
std::string words(const Limits &limits);

} // namespace spider::plan
