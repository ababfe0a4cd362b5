// SPDX-License-Identifier: GPL-3.0-or-later
// The planner's answer. A Plan that check() accepts can be started as it is. Plain values.
#pragma once

#include "model/job_spec.h"
#include "model/site.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spider::model {

enum class Outcome {
    planned,    // start it
    infeasible, // no plan exists; `reason` says what is missing
};

// One tensor-parallel group of GPUs inside one node: member `dp` of stage `stage`.
struct Slot {
    int stage = 0;
    int dp = 0;
    auto operator<=>(const Slot &) const = default;
};

// A member of a stage that is faster than the slowest.
struct Member {
    int dp = 0;
    Seconds forward = 0, backward = 0; // one micro-batch
    bool operator==(const Member &) const = default;
};

struct Stage {
    int first_layer = 0; // inclusive, from 0
    int last_layer = 0;  // inclusive
    int depth = 1;       // micro-batches in flight at this stage
    Seconds forward = 0; // one micro-batch, at the slowest member
    Seconds backward = 0;
    Bytes memory = 0;              // per GPU
    Seconds gradient = 0;          // all-reduce of its members
    std::vector<std::string> ring; // its sites, each sends gradients to the next
    std::vector<Member> faster;    // members that do not take as long; usually none
    bool operator==(const Stage &) const = default;
};

// Between `stage` and the next, in pipeline `dp`: one micro-batch's activations, and its gradients back.
struct Passage {
    int stage = 0;
    int dp = 0;
    Seconds latency = 0, occupancy = 0;
    Seconds back_latency = 0, back_occupancy = 0;
    bool operator==(const Passage &) const = default;
};

// What one site carries: one Slurm job.
struct Part {
    std::string site;
    std::string gpu;                      // type, as Slurm names it
    std::vector<std::vector<Slot>> nodes; // slots of each node, in node order; TP ranks each
    bool operator==(const Part &) const = default;
};

// A link as it was known when the plan was made.
struct LinkUse {
    std::string from, to;
    double gbps = 0; // of one flow that is alone
    double rtt_ms = 0;
    std::string source;      // as of Link; empty = the federation's file
    Seconds measured_at = 0; // since the epoch; 0 = not measured
    double usual_gbps = 0;   // as of Link
    bool used = true;        // false: the plan sends nothing on it, and it carries much less than usual
    bool operator==(const LinkUse &) const = default;
};

struct Term {
    std::string name;
    Seconds seconds = 0;
    bool operator==(const Term &) const = default;
};

// kind: "stage" (from = stage), "link" (from, to = sites), "gradients", "none".
struct Bottleneck {
    std::string kind = "none";
    std::string from, to;
    bool operator==(const Bottleneck &) const = default;
};

struct Iteration {
    Seconds seconds = 0;
    double tokens_per_second = 0;
    Seconds bound = 0; // no plan can be faster than this
    std::vector<Term> terms;
    Bottleneck bottleneck;
    bool operator==(const Iteration &) const = default;
};

// Another way to run the job, for comparison.
struct Alternative {
    std::string name;    // "one site alone", "data parallel over sites"
    Seconds seconds = 0; // of an iteration
    Seconds start = 0;   // when its GPUs are free, from now
    std::vector<std::string> sites;
    bool operator==(const Alternative &) const = default;
};

struct Search {
    std::string planner;
    Seconds seconds = 0;
    std::int64_t evaluations = 0;
    std::uint64_t seed = 0;
    bool operator==(const Search &) const = default;
};

struct Plan {
    Outcome outcome = Outcome::infeasible;
    std::string reason; // infeasible: what is missing, with numbers; planned: why these sites, one sentence
    int tp = 1, pp = 1, dp = 1;
    int micro_batch = 1;
    int micro_batches = 1; // per pipeline and iteration
    Recompute recompute = Recompute::none;
    Sends sends = Sends::async;
    int sequence = 0; // tokens
    Trainer trainer = Trainer::plain;
    Launcher launcher = Launcher::srun;
    bool single_gpu_view = false; // each task sees its own GPU as device 0
    std::string family;           // "pipeline over sites"
    Seconds start = 0;            // when all its GPUs are free, from now
    Iteration iteration;
    Seconds home_alone = 0; // an iteration of the best plan at home alone; 0 = does not fit there
    std::vector<Stage> stages;
    std::vector<Passage> passages;         // stage by stage, pipeline by pipeline
    std::vector<LinkUse> links;            // that it sends on, or that are not what they were
    std::vector<Part> parts;               // the home site's first
    std::vector<Alternative> alternatives; // the best of each other family, and of starting at another time
    Search search;
    bool operator==(const Plan &) const = default;
};

inline int world_size(const Plan &plan) { return plan.tp * plan.pp * plan.dp; }

// Megatron tp-cp-ep-dp-pp, torchtitan [pp,dp,cp,tp] and DeepSpeed [pipe,data,model] agree on this order.
inline int rank_of(const Plan &plan, const Slot &slot, int tp_rank) {
    return tp_rank + plan.tp * (slot.dp + plan.dp * slot.stage);
}

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
