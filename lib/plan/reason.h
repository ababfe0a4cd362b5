// SPDX-License-Identifier: GPL-3.0-or-later
// Sentences for Plan::reason: why these sites, or what is missing for any plan, with numbers.
#pragma once

#include "plan/enumerate.h"

namespace spider::plan {

// The sites that a plan may use.
struct Field {
    std::vector<Pool> pools;
    int home = -1;       // index into pools
    std::string trouble; // no plan can exist, whatever the search finds
};
Field field_of(const Federation &federation, const JobSpec &spec, const Limits &limits);

std::string why_planned(const JobSpec &spec, const Enumeration &search, bool several);
std::string why_infeasible(const Federation &federation, const JobSpec &spec, std::int64_t max_evaluations);

} // namespace spider::plan
