// SPDX-License-Identifier: GPL-3.0-or-later
// The default planner's plan where there must be one.
#pragma once

#include "plan/planner.h"

#include <gtest/gtest.h>

namespace spider::plan {

inline Plan planned(const Federation &federation, const JobSpec &spec) {
    const auto plan = make_plan(federation, spec);
    EXPECT_TRUE(plan) << plan.error().what;
    if (!plan) return {};
    EXPECT_EQ(plan->outcome, Outcome::planned) << plan->reason;
    return *plan;
}

} // namespace spider::plan
