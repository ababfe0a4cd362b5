// SPDX-License-Identifier: GPL-3.0-or-later
// TPA, level 2 of the planner: how a site splits its layers among the consecutive stages that it holds, as an
// integer program (site_split.h) with the exact memory of each stage at its depth; then single layers moved
// between sites, while the exact price gains. Our own reading of the published abstract.
#pragma once

#include "plan/spinsearch.h"

namespace spider::plan {

// The found web with better layers, or as it was. `deadline`: seconds for all programs; one that is not
// solved in time changes nothing.
Found split_layers(const Problem &problem, Found found, Seconds deadline);

} // namespace spider::plan
