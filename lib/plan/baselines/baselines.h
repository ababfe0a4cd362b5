// SPDX-License-Identifier: GPL-3.0-or-later
// What the field uses, for comparison: each search goes by its own rules and costs, its plan is priced and
// checked like any other. All deal the layers evenly and, where the job leaves it open, keep P - i
// micro-batches in flight (the 1F1B schedule). They take P, D and TP as given; what is left open is tried,
// with as many slots as any choice uses, and the fastest plan by our price counts.
#pragma once

#include "plan/planner.h"

namespace spider::plan {

// Ranks in the order of the sites, stage by stage, as a launcher with a host list does.
Result<Plan> rank_order(const Federation &federation, const JobSpec &spec, const Options &options);

// DT-FM's search (Yuan et al., Decentralized Training of Foundation Models in Heterogeneous Environments,
// NeurIPS 2022): genetic.h.
Result<Plan> genetic(const Federation &federation, const JobSpec &spec, const Options &options);

} // namespace spider::plan
