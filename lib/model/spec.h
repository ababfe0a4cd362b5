// SPDX-License-Identifier: GPL-3.0-or-later
// --spiderflow=SPEC: "key=value,..." or the path of a TOML or JSON file with the same keys. Text in, JobSpec
// out.
#pragma once

#include "model/job_spec.h"
#include "util/result.h"

#include <string>
#include <string_view>

namespace spider::model {

// Reads SPEC and the model file that it names. Keys of `text` win over those of `defaults`
// (SLURM_SPIDERFLOW).
// "", "(null)" = nothing given (Slurm's forms of the bare option). Lists: "sites=a+b". `directory` resolves
// relative paths. Every error is one line with the place: option key, or file:line:column.
Result<JobSpec> read_spec(std::string_view text, std::string_view defaults, const std::string &directory);

// Only the syntax of "key=value,..." (no file is opened): for the early check in the plugin's helper.
Result<void> check_spec_syntax(std::string_view text);

} // namespace spider::model
