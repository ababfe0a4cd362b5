// SPDX-License-Identifier: GPL-3.0-or-later
// What the user wants trained: the job around a model. Text -> parsed lives in model/spec.h.
#pragma once

#include "model/model_spec.h"

#include <optional>
#include <string>
#include <vector>

namespace spider::model {

enum class Trainer { plain, megatron, torchtitan, deepspeed, nanotron, torchrun };
enum class Launcher { srun, torchrun }; // a task for each GPU, or for each node
enum class Precision { bf16, fp16, fp32 };
enum class OnFailure { cancel, retry, replan };
enum class LinkChecking { no, warn, replan }; // before training starts, by the parts themselves
enum class Objective { jct, throughput };
enum class Sends { async, blocking }; // whether a stage goes on while its activations travel

// JobSpec::depth: micro-batches in flight at stage i of P. A positive N: N - i, at least 1.
constexpr int depth_of_trainer = 0; // not given
constexpr int depth_stages = -1;    // P - i
constexpr int depth_fitted = -2;    // what hides the links

// Upper limits that the user's own sbatch options set on what the job takes at each site; 0 = no limit.
struct Limits {
    int max_nodes = 0;          // --nodes
    int max_gpus_per_node = 0;  // --gres=gpu:N, --gpus-per-node
    int max_tasks = 0;          // --ntasks
    int max_tasks_per_node = 0; // --ntasks-per-node
    bool operator==(const Limits &) const = default;
};

struct JobSpec {
    std::string model_name; // for people: the path or name the user gave
    ModelSpec model;
    int sequence = 0;     // tokens; 0 until resolved from the model
    int global_batch = 0; // sequences per iteration
    int micro_batch = 1;  // sequences
    int iterations = 0;   // 0 = unknown
    Trainer trainer = Trainer::plain;
    Precision precision = Precision::bf16;
    Recompute recompute = Recompute::none;
    bool recompute_free = false; // the planner chooses it
    Objective objective = Objective::jct;
    OnFailure on_failure = OnFailure::cancel;
    int attempts = 3;           // in all, with on_failure retry or replan
    std::string sync = "every"; // "every" iteration, or "diloco:H"
    std::vector<std::string>
        sites;                     // exactly these, each with at least one stage; empty = the planner chooses
    std::optional<int> tp, pp, dp; // fixed by the user, else the planner chooses
    Limits limits;
    std::string home; // the site that must take part; empty = none must (offline planning)
    int depth = depth_of_trainer;
    std::optional<Sends> sends;          // not given: as the trainer does
    std::optional<bool> even_layers;     // as many layers in every stage; not given: if the trainer needs it
    Launcher launcher = Launcher::srun;  // Trainer::torchrun implies its own
    std::vector<std::string> travelling; // paths below the working directory that go with the parts
    bool single_gpu_view = false;        // each task sees its own GPU as device 0
    LinkChecking check_links = LinkChecking::no;
    double check_factor = 2; // a link worse than planned by so much is told, or planned anew
    bool operator==(const JobSpec &) const = default;
};

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
