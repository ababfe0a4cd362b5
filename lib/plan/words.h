// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers for people: "78.1 GB", "1.23 s", "52k tokens/s", "3 GPUs".
#pragma once

#include "model/plan.h"

#include <set>
#include <string>
#include <vector>

namespace spider::plan {

std::string decimal(double value, int places);
std::string gigabytes(Bytes bytes); // MB below 0.1 GB
std::string seconds_words(Seconds seconds);
std::string tokens_words(double per_second); // "52k tokens/s"
std::string count(int number, const std::string &noun);
std::string percent(double share);                   // 0.123 -> "12%"
std::string ranges(const std::set<int> &numbers);    // "0-3,7"
std::string duration_words(Seconds seconds);         // of waiting: "45 s", "30 min", "2 h 15 min", "3 d"
std::string shape_words(const Plan &plan);           // "pp=4 dp=2 tp=8"
std::string bound_words(const Iteration &iteration); // "at most 19% above the bound"
std::string gap_words(const Iteration &iteration);   // the same as a sentence, with the bound
std::string some_of(const std::vector<std::string> &names, std::size_t most); // "a, b and 12 more"

} // namespace spider::plan
