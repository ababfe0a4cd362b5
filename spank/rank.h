// SPDX-License-Identifier: GPL-3.0-or-later
// Which rank a task is, and the environment that tells its trainer so. Pure.
#pragma once

#include "spank/carriers.h"

#include <string>
#include <utility>
#include <vector>

namespace spider::spank {

// Read by torch and torchrun; what rank_environment() sets beside SPIDERFLOW_*.
inline constexpr const char *torch_names[] = {"RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LOCAL_WORLD_SIZE",
                                              "NODE_RANK",
                                              "GROUP_RANK",
                                              "MASTER_ADDR",
                                              "MASTER_PORT",
                                              "GLOO_SOCKET_IFNAME",
                                              "NCCL_SOCKET_IFNAME",
                                              "PET_NNODES",
                                              "PET_NODE_RANK",
                                              "PET_MASTER_ADDR",
                                              "PET_MASTER_PORT",
                                              "PET_RDZV_BACKEND",
                                              "PET_NPROC_PER_NODE"};
inline constexpr const char *own_prefix = "SPIDERFLOW_";
inline constexpr const char *own_job = "SPIDERFLOW_JOB_ID";

using Environment = std::vector<std::pair<std::string, std::string>>;

// Where Slurm has put the task.
struct Place {
    std::string node;               // SLURMD_NODENAME
    std::vector<std::string> nodes; // of the job, in Slurm's order
    int local_id = 0;               // among the step's tasks on this node
    int local_tasks = 0;            // of the step, on this node
    int step_tasks = 0;             // of the step, on all nodes of this site
    std::string interface;          // towards the master; may be empty
    bool single_gpu = false;        // it sees one GPU, and other tasks of the node others
};

// The step is not the plan's; `whole`: all its tasks see that, else only those of this node.
struct Mismatch {
    std::string what;
    bool whole = true;
};
std::optional<Mismatch> mismatch(const Carriers &carriers, const Place &place);

// Only for a place without a mismatch. Arguments and files of the trainer are not in it.
// "0", "GPU-…", "MIG-…": how many devices a variable such as CUDA_VISIBLE_DEVICES names; nothing when none
// does.
std::optional<int> visible_devices(const Lookup &variable);

// The node holds rank 0; with a task for each GPU, this one is it.
bool is_master(const Carriers &carriers, const Place &place);

Environment rank_environment(const Carriers &carriers, const Master &master, const Place &place);

} // namespace spider::spank
