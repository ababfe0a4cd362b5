// SPDX-License-Identifier: GPL-3.0-or-later
// The lines "WORD REST" between the plugin and its helper; REST went through util::escape_line(). Pure.
#pragma once

#include "cli/travelling.h"
#include "wire/messages.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spider::cli {

struct PlanLines {
    std::string spec;
    wire::Names options;
    bool test_only = false;
    bool operator==(const PlanLines &) const = default;
};
Result<PlanLines> read_plan_lines(std::string_view text);

struct PlaceLines {
    std::vector<std::string> arguments;
    std::optional<std::string> export_value;
    Travelling travelling;
    bool operator==(const PlaceLines &) const = default;
};
Result<PlaceLines> read_place_lines(std::string_view text);

std::string line(std::string_view word, std::string_view rest); // "say TEXT\n"
std::string line(std::string_view word, std::string_view name,
                 std::string_view value);             // "option NAME VALUE\n"
std::string plan_lines(const wire::PlanReply &reply); // id, say, option, env
std::string kept_lines(const Travelling &travelling); // keep: a line that `hook place` is to be told

} // namespace spider::cli
