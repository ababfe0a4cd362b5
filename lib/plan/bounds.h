// SPDX-License-Identifier: GPL-3.0-or-later
// What no plan can beat, whatever the planner. Pure.
#pragma once

#include "plan/capacity.h"

#include <span>

namespace spider::plan {

// The greater of: all work on all GPUs that the job may use at once (as many as TP x PP x DP, if all are
// fixed), and one micro-batch on the fastest TP group that exists. Links and imbalance are left out: a bound,
// not an estimate.
Seconds iteration_bound(std::span<const Pool> pools, const JobSpec &spec);

} // namespace spider::plan
