// SPDX-License-Identifier: GPL-3.0-or-later
// A plan as one SVG picture: the map of the sites with the web on it, below the slowest pipeline over time.
// No script, no font, nothing from elsewhere; the same plan gives the same text. Pure.
#pragma once

#include "federation/federation.h"
#include "plan/canvas.h"
#include "plan/course.h"

#include <string>

namespace spider::plan {

// `course` is the plan's own. Without a federation the map shows only what the plan names.
std::string picture(const Plan &plan, const Course &course, const Federation *federation);

// Its two halves. Each draws below `top` and gives where it ends.
constexpr double picture_width = 1200;
double draw_map(Canvas &canvas, double top, const Plan &plan, const Course &course,
                const Federation *federation);
double draw_timeline(Canvas &canvas, double top, const Plan &plan, const Course &course);

} // namespace spider::plan
