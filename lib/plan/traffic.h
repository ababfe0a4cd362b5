// SPDX-License-Identifier: GPL-3.0-or-later
// What a plan sends between its sites in one iteration. Pure functions of values.
#pragma once

#include "model/job_spec.h"
#include "model/plan.h"

#include <string>
#include <vector>

namespace spider::plan {

struct Traffic {
    std::string from, to; // sites, never the same
    Bytes bytes = 0;      // of payload, in an iteration
    bool operator==(const Traffic &) const = default;
};

// One entry for each directed pair with traffic, by name. Activations forth and their gradients back for each
// micro-batch; 2(k-1)/k of a stage's gradients on each edge of its ring of k sites (Patarasuk and Yuan 2009,
// section 3); a tied embedding's gradients both ways.
std::vector<Traffic> traffic(const JobSpec &spec, const Plan &plan);

// Gbit/s when an iteration of `seconds` sends `bytes`.
inline double average_gbps(Bytes bytes, Seconds seconds) { return seconds > 0 ? bytes * 8e-9 / seconds : 0; }

} // namespace spider::plan
