// SPDX-License-Identifier: GPL-3.0-or-later
// The default planner: SpinSearch between the sites, TPA inside them, every family compared, now against
// later.
#pragma once

#include "plan/planner.h"

namespace spider::plan {

Result<Plan> spin(const Federation &federation, const JobSpec &spec, const Options &options);

} // namespace spider::plan
