// SPDX-License-Identifier: GPL-3.0-or-later
// The batch script as sbatch finds it: a file, on PATH, or standard input.
#pragma once

#include "util/fd.h"
#include "util/result.h"

#include <string>

namespace spider::cli {

struct Script {
    std::string text;
    util::Fd standard_input; // a copy to read again, when the script came that way
};

Result<Script> read_script(const std::string &name); // "" = standard input

} // namespace spider::cli
