// SPDX-License-Identifier: GPL-3.0-or-later
// Finds what sbatch has just submitted: the home part by its comment, and its script as Slurm stored it. Runs
// squeue, scontrol and scancel as the user.
#pragma once

#include "util/clock.h"
#include "util/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace spider::cli {

// In what `squeue --me -h -o '%i|%k'` printed; a comment may hold '|' and line ends. The newest of several.
std::optional<std::int64_t> home_job_in(std::string_view printed, std::string_view job);

using Found = Result<std::optional<std::int64_t>>; // nothing: squeue answered, and it is not there

Found find_home_job(const std::string &job); // now; asks again when squeue itself fails

// Until it is found or the process `submitter` is gone.
Found await_home_job(const std::string &job, pid_t submitter);

Result<std::string> stored_script(std::int64_t home_job);
void cancel_home_job(std::int64_t home_job); // as well as it can

} // namespace spider::cli
