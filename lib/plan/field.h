// SPDX-License-Identifier: GPL-3.0-or-later
// The sites that a plan may use: those the job names or all, usable, with free GPUs.
#pragma once

#include "plan/capacity.h"

#include <string>
#include <vector>

namespace spider::plan {

struct Field {
    std::vector<Pool> pools;
    int home = -1;       // index into pools
    std::string trouble; // no plan can exist, whatever the search finds
};
// `after`: seconds from now, when more may be free.
Field field_of(const Federation &federation, const JobSpec &spec, const Limits &limits, Seconds after = 0);

} // namespace spider::plan
