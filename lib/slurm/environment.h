// SPDX-License-Identifier: GPL-3.0-or-later
// What sbatch adds to a job's environment and slurmrestd does not. Pure, any thread.
#pragma once

#include "slurm/views.h"

#include <string>
#include <utility>
#include <vector>

namespace spider::slurm {

// The submission's environment and what sbatch would have added to it from the other fields; a name that is
// there stays.
std::vector<std::pair<std::string, std::string>> job_environment(const Submission &submission);

} // namespace spider::slurm
