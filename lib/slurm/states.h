// SPDX-License-Identifier: GPL-3.0-or-later
// Slurm's state words and what they mean for a plan, the same for every OpenAPI version. Pure, any thread.
#pragma once

#include "slurm/views.h"

#include <string>
#include <string_view>

namespace spider::slurm {

std::string upper(std::string_view text);

// `other` for a word that is not known.
JobState job_state(std::string_view word);

// Sets usable, free_now, bootable and unknown_flags of a node from its state and flags. A flag that is not
// known makes the node unusable, never the reading fail.
void judge(NodeView &node);

} // namespace spider::slurm
