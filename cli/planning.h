// SPDX-License-Identifier: GPL-3.0-or-later
// What `plan` and `explain` share: the options that say what to plan, and planning it, offline or through the
// broker.
#pragma once

#include "cli/spec_options.h"
#include "federation/federation.h"
#include "model/plan.h"

#include <optional>

namespace spider::cli {

struct PlanRequest {
    std::string spec;
    SpecKeys keys;
    std::string federation; // path; empty = the broker
    std::string planner, home;
    double budget_ms = 200;
    std::uint64_t seed = 1;
    std::string svg;    // path; empty = no picture
    bool tuned = false; // --planner, --budget-ms, --seed or --home was given
};

struct Planned {
    Plan plan; // may be infeasible
    std::optional<Federation> federation;
    std::string line; // what the broker adds, for people
};

// SPEC and all options; `request` must outlive the command.
void add_plan_options(CLI::App &command, PlanRequest &request);

// Gives the exit status; what is wrong has been said then.
int make(const std::string &socket, const PlanRequest &request, Planned &planned);

Result<Federation> read_federation_file(const std::string &path);

constexpr std::size_t longest_plan = 64u << 20;
// As `spiderflow plan --json` printed it; "-" is standard input.
Result<Plan> read_plan_file(const std::string &path);

// Says why when the plan is infeasible.
int judge(const Plan &plan);

int write_picture(const Plan &plan, const Federation *federation, const std::string &path);

void print_lines(std::string_view text); // on standard output, each made printable

} // namespace spider::cli
