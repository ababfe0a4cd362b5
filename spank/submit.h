// SPDX-License-Identifier: GPL-3.0-or-later
// The side of sbatch: asks for a plan before the submission, has the other parts placed after it.
// Runs as the user, in sbatch alone. Refusals are one line on standard error and exit status 1.
#pragma once

#include "spank/commandline.h"
#include "spank/settings.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace spider::spank {

// From init_post_opt to exit; a fresh one in each sbatch.
struct Submission {
    bool by_command = false;    // `spiderflow submit` has planned already: leave everything alone
    bool heterogeneous = false; // this is not the first component of the job
    bool test_only = false;     // sbatch --test-only: nothing will be submitted
    pid_t child = 0;            // sbatch --wait: it places
    std::string id;             // of the plan that this process has yet to place or to drop
    std::string placing;        // what `hook place` is told: arguments, --export, what to keep
};

// In init, before sbatch reads its environment: a job submitted from inside a federated one inherits its
// carriers and its option, and is neither a part of it nor federated itself.
void shed_inherited(Submission &submission);

void before_submission(const Settings &settings, const Asked &asked, Submission &submission);
void after_submission(const Settings &settings, Submission &submission);

// salloc, and srun outside a federated job.
[[noreturn]] void refuse_elsewhere(const char *program, const char *where);

} // namespace spider::spank
