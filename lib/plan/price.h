// SPDX-License-Identifier: GPL-3.0-or-later
// The exact price of a web: depths, memory, seconds of an iteration. Every search is judged by this one
// function, so that plans of different searches compare.
//
// Iteration: stage i of pipeline d ends its last backward at E_id (event recurrence). Its all-reduce starts
// then, a reduce-scatter inside each site and a ring between the sites:
//   T = max_i ( max_d E_id + AR_i ) + AR_tied
// Flows that cross the same link at the same time share it by max-min fairness: the D pipelines' messages in
// each direction during the pipeline, all stages' rings during the all-reduce.
#pragma once

#include "model/plan.h"
#include "plan/pipeline.h"
#include "plan/problem.h"
#include "plan/ring.h"
#include "plan/web.h"

#include <cstdint>
#include <optional>

namespace spider::plan {

struct Priced {
    std::vector<int> depths;             // per stage
    std::vector<Bytes> memory;           // per GPU of each stage
    std::vector<Pipeline> pipelines;     // per group
    std::vector<Seconds> gradients;      // per stage: its all-reduce
    std::vector<std::vector<int>> rings; // per stage: its sites in ring order
    Iteration iteration;                 // without tokens and bound
};

// Nothing when a stage does not fit its GPUs, a link that the web crosses is not known, or a site has too few
// slots.
std::optional<Priced> price(const Problem &problem, const Web &web);

// What that takes, in the steps that searches count: some tens of instructions each.
std::int64_t price_steps(const Problem &problem, const Shape &shape);

// The pipelines of each group with the sharing of links, and the depths that the job's rule gives them.
// Empty: does not fit, or is not linked.
std::vector<Pipeline> pipelines_of(const Problem &problem, const Web &web);
std::vector<int> depths_of(const Problem &problem, const Web &web, const std::vector<Pipeline> &pipelines);

// The greatest depth of each stage that memory allows; 0 = the stage does not fit.
std::vector<int> depth_caps(const Problem &problem, const Web &web);

} // namespace spider::plan
