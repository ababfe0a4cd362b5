// SPDX-License-Identifier: GPL-3.0-or-later
// The batch script of a part at another site: the user's own, with a guard in front that ends it when the
// plugin is not there, since it would run as copies without ranks.
#pragma once

#include "util/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::launch {

constexpr int plugin_missing_status = 78; // EX_CONFIG of sysexits.h; coalloc turns it into words

// A script for a Bourne shell keeps its first line and runs in place; any other is given to its interpreter
// on descriptor 9 by a sh script. Errc::invalid: no "#!" line.
Result<std::string> guarded_script(std::string_view script, const std::vector<std::string> &arguments,
                                   std::string_view site);

} // namespace spider::launch
