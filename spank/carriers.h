// SPDX-License-Identifier: GPL-3.0-or-later
// The carriers SLURM_SPIDERFLOW_*: one part's share of the plan, as its job's environment brings it. Plain
// values.
#pragma once

#include "util/result.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spider::spank {

namespace carrier {
inline constexpr const char *job = "SLURM_SPIDERFLOW_JOB";
inline constexpr const char *attempt = "SLURM_SPIDERFLOW_ATTEMPT";
inline constexpr const char *site = "SLURM_SPIDERFLOW_SITE";
inline constexpr const char *world = "SLURM_SPIDERFLOW_WORLD";
inline constexpr const char *tp = "SLURM_SPIDERFLOW_TP";
inline constexpr const char *pp = "SLURM_SPIDERFLOW_PP";
inline constexpr const char *dp = "SLURM_SPIDERFLOW_DP";
inline constexpr const char *slots = "SLURM_SPIDERFLOW_SLOTS";
inline constexpr const char *layers = "SLURM_SPIDERFLOW_LAYERS";
inline constexpr const char *patience = "SLURM_SPIDERFLOW_PATIENCE";
inline constexpr const char *node_ranks = "SLURM_SPIDERFLOW_NODE_RANKS";
inline constexpr const char *nnodes = "SLURM_SPIDERFLOW_NNODES";
inline constexpr const char *master = "SLURM_SPIDERFLOW_MASTER";      // set by the batch step: the word
inline constexpr const char *local_job = "SLURM_SPIDERFLOW_LOCALJOB"; // set by the batch step: its Slurm job
inline constexpr const char *submit = "SLURM_SPIDERFLOW_SUBMIT";      // set by `spiderflow submit`
inline constexpr const char *depths = "SLURM_SPIDERFLOW_DEPTHS";
inline constexpr const char *micro_batch = "SLURM_SPIDERFLOW_MICROBATCH";
inline constexpr const char *micro_batches = "SLURM_SPIDERFLOW_MICROBATCHES";
inline constexpr const char *recompute = "SLURM_SPIDERFLOW_RECOMPUTE";
inline constexpr const char *master_site = "SLURM_SPIDERFLOW_MASTER_SITE";
inline constexpr const char *trainer = "SLURM_SPIDERFLOW_TRAINER";
inline constexpr const char *launcher = "SLURM_SPIDERFLOW_LAUNCHER";
inline constexpr const char *arguments = "SLURM_SPIDERFLOW_ARGS";
inline constexpr const char *file = "SLURM_SPIDERFLOW_FILE_"; // and a number from 1
inline constexpr const char *single_gpu_view = "SLURM_SPIDERFLOW_SINGLE_GPU_VIEW";
inline constexpr const char *interface = "SLURM_SPIDERFLOW_IFNAME";
inline constexpr const char *check = "SLURM_SPIDERFLOW_CHECK"; // of the links; for the batch step alone
inline constexpr const char *prefix = "SLURM_SPIDERFLOW_";
inline constexpr const char *all[] = {
    job,    attempt,     site,          world,           tp,       pp,         dp,        slots,  layers,
    depths, micro_batch, micro_batches, recompute,       patience, node_ranks, nnodes,    master, local_job,
    submit, master_site, trainer,       single_gpu_view, launcher, arguments,  interface, check};
} // namespace carrier

// One tensor-parallel group: member `dp` of stage `stage`; TP tasks of one node.
struct Slot {
    int stage = 0;
    int dp = 0;
    bool operator==(const Slot &) const = default;
};

struct Layers {
    int first = 0;
    int last = 0; // inclusive
    bool operator==(const Layers &) const = default;
};

struct Carriers {
    std::string job;
    int attempt = 0;
    std::string site;
    int world = 0;
    int tp = 1, pp = 1, dp = 1;
    std::vector<std::vector<Slot>> nodes; // slots of each of this part's nodes, in the order of the node list
    std::vector<Layers> layers;           // of each stage
    std::string layers_text;              // the same, as it came
    std::vector<int> depths;              // micro-batches in flight at each stage
    int micro_batch = 1, micro_batches = 1;
    std::string recompute;
    std::vector<int> node_ranks; // of this part's nodes, over all sites
    int all_nodes = 0;           // in all parts
    std::string master_site;     // where rank 0 is
    std::string trainer;
    bool per_node = false; // a task for each node, which starts the others itself (torchrun)
    std::string arguments; // of the trainer; "@NAME@" stands for the path of a file
    std::vector<std::pair<std::string, std::string>> files; // name and text, besides the schedule
    bool single_gpu_view = false;
    std::string interface; // this site's, as NCCL writes it; empty: by the route to the master

    [[nodiscard]] int gpus_on(std::size_t node) const { return static_cast<int>(nodes[node].size()) * tp; }
    [[nodiscard]] int tasks_on(std::size_t node) const { return per_node ? 1 : gpus_on(node); }
    [[nodiscard]] int tasks() const;
};

struct Master {
    std::string address;
    int port = 0;
    bool operator==(const Master &) const = default;
};

using Lookup = std::function<std::optional<std::string>(const char *name)>;

// The error names the variable, what it held and what was expected.
Result<Carriers> read_carriers(const Lookup &variable);
// "10.77.1.1/29501", what follows a further "/" is for the look at the links.
Result<Master> parse_master(std::string_view word);
int read_patience(const Lookup &variable); // seconds; 300 when absent or not a number

} // namespace spider::spank
