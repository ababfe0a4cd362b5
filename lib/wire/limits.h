// SPDX-License-Identifier: GPL-3.0-or-later
// The user's own sbatch options as upper limits of the plan. Pure.
#pragma once

#include "wire/messages.h"

namespace spider::wire {

// nodes, ntasks, ntasks-per-node, gres and gpus-per-node, in every form that sbatch(1) and its option API
// print. Errc::invalid names the option.
Result<Limits> limits_of(const Names &options);

} // namespace spider::wire
