// SPDX-License-Identifier: GPL-3.0-or-later
// The file patterns of sbatch(1), --output and --error, filled in as far as the broker knows. Pure.
#pragma once

#include "coalloc/job.h"

#include <string>

namespace spider::broker {

// An absolute path. What is not known yet stays: %j before the submission, %N before the part runs.
// Empty for an empty pattern.
std::string output_path(const std::string &pattern, const coalloc::Job &job, const coalloc::PartRecord &part);

} // namespace spider::broker
