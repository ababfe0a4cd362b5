// SPDX-License-Identifier: GPL-3.0-or-later
// The two talks with the broker around a submission, the same for the plugin's helper and for `spiderflow
// submit`.
#pragma once

#include "cli/spec_options.h"
#include "cli/travelling.h"
#include "wire/client.h"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace spider::cli {

struct Planned {
    wire::PlanReply reply;
    Travelling travelling; // to be packed when the parts are placed
};

// Before the submission: refuses what cannot be, reads SPEC, asks for a plan. A plan that is none is an
// Error.
Result<Planned> ask_plan(const std::string &socket, const SpecText &spec, const wire::Names &options,
                         bool test_only);

struct Submission {
    std::string job;                         // federated
    std::vector<std::string> arguments;      // of the script
    std::optional<std::string> export_value; // of --export
    std::optional<pid_t> submitter;          // an sbatch that waits for the job: look while it lives
    Travelling travelling = {};
};

// After the submission: finds the home part and has the other parts placed. One line for the user, or an
// Error, and then nothing is left anywhere. Errc::not_found: there is no home part, and the plan has been
// dropped.
Result<std::string> place(const std::string &socket, const Submission &submission);

} // namespace spider::cli
