// SPDX-License-Identifier: GPL-3.0-or-later
// A plan for people: the line that sbatch prints, and the table of `spiderflow plan`.
#pragma once

#include "federation/federation.h"
#include "model/plan.h"

#include <string>

namespace spider::plan {

// "pp=4 dp=2 tp=1 over s1 (2 nodes, 4 GPUs, layers 0-3), s2 (...): 1.23 s/iteration, ..."; "no plan: why".
std::string summary(const Plan &plan);

// Several lines, each ended. `federation`, where it is known, says how much memory the GPUs have.
std::string table(const Plan &plan, const Federation *federation = nullptr);

} // namespace spider::plan
