// SPDX-License-Identifier: GPL-3.0-or-later
// The files that a trainer's arguments name, as anonymous files of the task itself: nothing is left on any
// disk, and they are there as long as the task is.
#pragma once

#include "spank/carriers.h"

#include <string>
#include <utility>
#include <vector>

namespace spider::spank {

// SPIDERFLOW_TRAINER_ARGS, and SPIDERFLOW_PLAN_FILE if there is a plan. Paths are "/proc/PID/fd/N" of the
// calling process, which its children can read too. Errc::system.
Result<std::vector<std::pair<std::string, std::string>>> trainer_environment(const Carriers &carriers);

} // namespace spider::spank
