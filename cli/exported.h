// SPDX-License-Identifier: GPL-3.0-or-later
// Which of the user's environment variables go with the job to the other sites: sbatch's --export, less what
// is true only on this host. Pure.
#pragma once

#include "wire/messages.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spider::cli {

bool stays_here(std::string_view name); // PATH, HOME, SLURM_*, SSH_* ...
bool is_utf8(std::string_view text);    // JSON carries nothing else

// `export_value`: of --export; nothing and "ALL" are the whole environment, "NONE" and "NIL" nothing, else a
// list of NAME, NAME=VALUE and ALL. Values that are no UTF-8 and exported shell functions stay here.
wire::Names exported(std::span<const std::string> environment,
                     const std::optional<std::string> &export_value);

// What SPANK of Slurm leaves in sbatch's environment of the options of plugins, by "PLUGIN_OPTION".
wire::Names spank_options(std::span<const std::string> environment);

std::vector<std::string> own_environment(); // "NAME=VALUE" each

} // namespace spider::cli
