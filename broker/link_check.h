// SPDX-License-Identifier: GPL-3.0-or-later
// What the parts of a job are told, and tell, of the look at their links. Plain functions.
#pragma once

#include "coalloc/job.h"
#include "probe/sample.h"

#include <string>
#include <vector>

namespace spider::broker {

inline constexpr const char *check_carrier = "SLURM_SPIDERFLOW_CHECK";

// Its value; empty: nothing is checked. The key in it is of this process, job and attempt, and known to the
// job's own user alone.
std::string check_text(const coalloc::Job &job);

} // namespace spider::broker
