// SPDX-License-Identifier: GPL-3.0-or-later
// The side of slurmstepd, in the forked task as the user (task_init): the batch step waits for the broker's
// word, a task of a step gets its rank. Trouble is one line on the task's standard error and _exit(1):
// elsewhere in slurmstepd it would drain the node or be taken for success.
#pragma once

#include "spank/guard.h"
#include "spank/settings.h"

namespace spider::spank {

void before_task(spank_t spank, const Settings &settings, const Asked &asked);

// When before_task() itself broke: a task of a federated job must not run without its rank.
void stop_task(spank_t spank) noexcept;

} // namespace spider::spank
