// SPDX-License-Identifier: GPL-3.0-or-later
// How the time of a plan comes about, in sentences and numbers that can be checked by hand. Pure.
#pragma once

#include "plan/course.h"

#include <string>

namespace spider::plan {

// Several lines, each ended. `course` is the plan's own.
std::string explanation(const Plan &plan, const Course &course);

// Whether the plan says the time that its own numbers give, but for rounding.
bool agrees(const Plan &plan, const Course &course);

// The one change of the plan's numbers that lowers its time most, the placement staying as it is. Empty when
// none does.
struct Cure {
    std::string what; // "twice the bandwidth between a <-> b"
    Seconds seconds = 0;
};
Cure best_cure(const Plan &plan, const Course &course);

} // namespace spider::plan
