// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers for people: "78.1 GB", "1.23 s", "52k tokens/s", "3 GPUs".
#pragma once

#include "model/plan.h"

#include <string>

namespace spider::plan {

std::string decimal(double value, int places);
std::string gigabytes(Bytes bytes); // MB below 0.1 GB
std::string seconds_words(Seconds seconds);
std::string tokens_words(double per_second); // "52k tokens/s"
std::string count(int number, const std::string &noun);
std::string percent(double share); // 0.123 -> "12%"

} // namespace spider::plan
