// SPDX-License-Identifier: GPL-3.0-or-later
// The conversation with the helper `spiderflow hook …`: lines "WORD REST", REST through util::escape_line.
// The plugin's real work is done there, in another process, with a deadline.
#pragma once

#include "spank/settings.h"
#include "util/clock.h"
#include "util/result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spider::spank {

// What the helper says.
struct Reply {
    std::vector<std::string> say;
    std::string id;                                           // of the federated job
    std::vector<std::pair<std::string, std::string>> options; // for Slurm's option table
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> keep; // lines for `hook place`
    std::string fail;              // not empty: the helper refuses, and why
    bool operator==(const Reply &) const = default;
};

void add_line(std::string &input, std::string_view word, std::string_view rest = {});
Result<Reply> parse_reply(std::string_view out);

// `hook ARGUMENTS…` with `input`. A helper that ends badly without saying why is an error with its last
// words.
Result<Reply> ask_helper(const Settings &settings, const std::vector<std::string> &arguments,
                         const std::string &input, Seconds deadline);

} // namespace spider::spank
