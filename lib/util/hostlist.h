// SPDX-License-Identifier: GPL-3.0-or-later
// Slurm host lists: "n[1-3,07],gpu-a" and several brackets ("rack[0-1]_blade[0-1]"), in Slurm's order.
#pragma once

#include "util/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::util {

// At most `limit` names, so that n[1-999999999] is an error and not an exhausted memory.
Result<std::vector<std::string>> expand_hostlist(std::string_view list, std::size_t limit = 65536);

} // namespace spider::util
