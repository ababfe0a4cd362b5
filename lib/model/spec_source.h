// SPDX-License-Identifier: GPL-3.0-or-later
// Where SPEC's settings come from: the option's text, a TOML file or a JSON file; each setting knows its
// place.
#pragma once

#include "util/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::model {

struct Setting {
    std::string key;
    std::string value; // lists are joined by '+'
    std::string place; // "--spiderflow", "SLURM_SPIDERFLOW", "job.toml:3:7"
};

// "", "(null)": Slurm's forms of the bare option. "off": not for this job.
bool says_nothing(std::string_view text);

// The settings of "key=value,...", or of the file that `text` names. `place` is the option's or variable's
// name.
Result<std::vector<Setting>> read_settings(std::string_view text, std::string_view place,
                                           const std::string &directory);

// The same, but a file's name is only judged by its ending; such a text has no settings yet.
Result<std::vector<Setting>> split_settings(std::string_view text, std::string_view place);

std::string resolved(const std::string &path, const std::string &directory);

} // namespace spider::model
