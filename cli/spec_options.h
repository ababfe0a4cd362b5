// SPDX-License-Identifier: GPL-3.0-or-later
// The keys of SPEC as command line options: --tp 2 is the same as tp=2 in SPEC, and wins over it.
#pragma once

#include "cli/commands.h"
#include "util/result.h"

#include <map>
#include <string>
#include <string_view>

namespace spider::cli {

using SpecKeys = std::map<std::string, std::string, std::less<>>; // given on the command line

void add_spec_options(CLI::App &command, SpecKeys &given);

struct SpecText {
    std::string text; // wins
    std::string defaults;
    bool operator==(const SpecText &) const = default;
};

// What model::read_spec() is asked: `given` over SPEC over `environment` ($SLURM_SPIDERFLOW).
Result<SpecText> compose(std::string_view spec, const SpecKeys &given, std::string_view environment);

std::string spec_defaults(); // $SLURM_SPIDERFLOW; "" when it is off

} // namespace spider::cli
