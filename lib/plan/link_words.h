// SPDX-License-Identifier: GPL-3.0-or-later
// What a plan says about the links it rests on: how old its knowledge is, and which it goes round.
#pragma once

#include "model/plan.h"

#include <string>

namespace spider::plan {

// "links measured 3 min to 2 h before, 2 pinned"; empty when the plan crosses none or nobody said.
std::string link_ages(const Plan &plan, Seconds now);

// One line for each link, each ended: those used, then those that carry much less than usual.
std::string link_lines(const Plan &plan);

} // namespace spider::plan
