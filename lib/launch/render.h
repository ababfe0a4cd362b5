// SPDX-License-Identifier: GPL-3.0-or-later
// A plan in the words of its trainer: arguments of its command line, and the files that they name. One
// function for each trainer, in a table; man page spiderflow-launch(7). Pure.
#pragma once

#include "model/plan.h"
#include "util/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::launch {

struct File {
    std::string name; // an argument names it as "@NAME@": its path is known on the node only
    std::string text;
    bool operator==(const File &) const = default;
};

struct Launch {
    std::vector<std::string> arguments; // no blank, quote or glob character: a shell may split them unquoted
    std::vector<File> files;
    std::vector<std::string> notes; // for people: what the trainer is not told by these
    bool operator==(const Launch &) const = default;
};

inline constexpr std::string_view schedule_file = "schedule.csv"; // the plugin writes it from the depths
inline constexpr std::string_view plan_file = "plan.json";

// Errc::invalid: the trainer cannot run the plan, and what to do.
Result<Launch> render(const Plan &plan, Trainer trainer);

// The plan as its tasks may read it, in `limit` bytes: without its boundaries where there is no room for
// them. Empty: there is none at all.
std::string plan_text(const Plan &plan, std::size_t limit);

} // namespace spider::launch
