// SPDX-License-Identifier: GPL-3.0-or-later
// What the user wants trained: the model as numbers and the job around it. Text -> parsed lives in
// model/spec.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace spider::model {

// A decoder-only transformer, as read from a Hugging Face config.json.
struct ModelSpec {
    std::string architecture; // "LlamaForCausalLM", "GPT2LMHeadModel"
    int layers = 0;
    int hidden = 0;
    int intermediate = 0; // width of the MLP
    int heads = 0;
    int kv_heads = 0; // < heads: grouped-query attention
    int head_dim = 0;
    int vocab = 0;
    int positions = 0;      // learned position embeddings (GPT-2); 0 with rotary ones
    bool gated_mlp = false; // three MLP matrices (Llama) instead of two (GPT-2)
    bool tied_embeddings = false;
    bool operator==(const ModelSpec &) const = default;
};

enum class Trainer { plain, megatron, torchtitan, deepspeed, torchrun };
enum class Precision { bf16, fp16, fp32 };
enum class OnFailure { cancel, retry, replan };
enum class Recompute { none, selective, full };
enum class Objective { jct, throughput };

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
    Objective objective = Objective::jct;
    OnFailure on_failure = OnFailure::cancel;
    std::string sync = "every"; // "every" iteration, or "diloco:H"
    std::vector<std::string>
        sites;                     // exactly these, each with at least one stage; empty = the planner chooses
    std::optional<int> tp, pp, dp; // fixed by the user, else the planner chooses
    Limits limits;
    std::string home; // the site that must take part; empty = none must (offline planning)
    bool operator==(const JobSpec &) const = default;
};

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
