// SPDX-License-Identifier: GPL-3.0-or-later
// The first planner: contiguous pipelines over sites in order, by enumeration. D and TP are equal for all
// stages, the D members of a stage share its site, the home site holds the first stages.
#pragma once

#include "plan/planner.h"

namespace spider::plan {

Result<Plan> contiguous(const Federation &federation, const JobSpec &spec, const Options &options);

} // namespace spider::plan
