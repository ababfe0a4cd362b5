// SPDX-License-Identifier: GPL-3.0-or-later
// What every sub-command needs: exit statuses, one-line errors, text that is safe on a terminal.
#pragma once

#include "model/json.h"
#include "util/result.h"

#include <string>
#include <string_view>

namespace spider::cli {

constexpr int success = 0;
constexpr int failed = 1;  // it was tried and did not work
constexpr int misused = 2; // the command line is wrong

int failure(const Error &error);   // prints "spiderflow: ..." on standard error; `failed`
int misuse(std::string_view what); // the same; `misused`
void print(std::string_view text); // on standard output
void print_line(std::string_view text);
void note(std::string_view text); // a line on standard error
int print_json(const Json &json); // `success`

// Control characters become '?': what other users named their jobs must not steer this terminal.
std::string printable(std::string_view text);
std::string age(Seconds seconds);            // as squeue(1): "4:07", "1:04:07", "2-01:04:07"
std::string or_dash(std::string text);

Result<std::string> read_all(int fd, std::size_t limit);
std::string working_directory();
std::string environment_value(const char *name); // "" when unset

} // namespace spider::cli
