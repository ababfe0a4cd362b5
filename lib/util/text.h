// SPDX-License-Identifier: GPL-3.0-or-later
// Small text tools shared by every room. Pure functions, any thread.
#pragma once

#include "util/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spider::util {

std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator); // "a,,b" -> a, "", b; "" -> nothing
std::string join(const std::vector<std::string> &parts, std::string_view separator);
std::optional<std::int64_t> to_int(std::string_view text); // the whole text, base 10, or nothing
std::optional<double> to_double(std::string_view text);    // the whole text, finite, or nothing

// Slurm's time grammar (sbatch(1) --time): minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S; seconds round up to
// minutes. UNLIMITED and INFINITE give `unlimited_minutes`. Anything else: Errc::invalid.
constexpr std::int64_t unlimited_minutes = -1;
Result<std::int64_t> parse_time_limit(std::string_view text);

// Slurm's memory grammar (sbatch(1) --mem): a number with K, M, G or T; no suffix means megabytes. Gives
// megabytes.
Result<std::int64_t> parse_megabytes(std::string_view text);

// One line per message between the plugin and its helper: '%', line ends and NUL become %XX, and back.
std::string escape_line(std::string_view text);
std::string unescape_line(std::string_view text);

// A text as one word of a POSIX shell, in single quotes.
std::string shell_quote(std::string_view text);

std::string local_time(double since_epoch); // "2026-05-04T12:30:00" here; "-" for 0

std::string number(double value, int digits = 6); // shortest form with `digits` significant digits, C locale

} // namespace spider::util
