// SPDX-License-Identifier: GPL-3.0-or-later
// A plan's own numbers put together again: its pipelines, when each stage ends there, and the iteration that
// follows. Asks neither federation nor model, so that anyone with the plan can check its time. Pure.
#pragma once

#include "model/plan.h"
#include "plan/pipeline.h"
#include "util/result.h"

#include <map>
#include <string>
#include <vector>

namespace spider::plan {

// Where each member of each stage runs, by stage and member; what the plan does not say is missing.
using Seats = std::vector<std::map<int, std::string>>;
Seats seats_of(const Plan &plan);

// The members of one stage as sites, each once, in order of members.
std::vector<std::string> sites_of(const Seats &seats, std::size_t stage);

struct Course {
    std::vector<Pipeline> pipelines; // of each member, with what its sends block
    std::vector<int> depths;
    std::vector<Seconds> ends; // of each stage: its last backward, in the pipeline that is last there
    int slowest = 0;           // the pipeline that ends last
    Seconds pipeline = 0;      // when it does
    int closing = 0;           // the stage whose all-reduce ends last
    Seconds reduced = 0;       // when it does
    Seconds tied = 0;          // after that
    [[nodiscard]] Seconds seconds() const { return reduced + tied; }
};

// Error: the plan is none, or its parts contradict each other.
Result<Course> course_of(const Plan &plan);

// Stages and boundaries of one pipeline as the plan has them, sends not blocking. Only for plans that
// course_of() accepts.
Pipeline pipeline_of(const Plan &plan, int dp);

Seconds term(const Iteration &iteration, std::string_view name); // 0 when there is none

} // namespace spider::plan
