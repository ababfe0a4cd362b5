// SPDX-License-Identifier: GPL-3.0-or-later
// The batch script of a part at another site: the user's own, with a guard in front that ends it when the
// plugin is not there, since it would run as copies without ranks, and with what travels to that site.
#pragma once

#include "util/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::launch {

// Statuses of a part that started nothing, of sysexits.h; coalloc turns them into words.
constexpr int plugin_missing_status = 78;   // EX_CONFIG
constexpr int unpacking_failed_status = 73; // EX_CANTCREAT

// What a part does at its site before the script.
struct Arrival {
    std::string site;
    std::string directory; // made and entered, relative to where the job starts; empty: stay there
    std::string archive;   // base64 of a tar.gz, for that directory; empty: nothing travels
    std::string sha256;    // of the tar.gz, in hexadecimal
};

// A script for a Bourne shell keeps its first line and runs in place; any other is given to its interpreter
// on descriptor 9 by a sh script. Errc::invalid: no "#!" line.
Result<std::string> guarded_script(std::string_view script, const std::vector<std::string> &arguments,
                                   const Arrival &arrival);

} // namespace spider::launch
