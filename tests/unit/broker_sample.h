// SPDX-License-Identifier: GPL-3.0-or-later
// A federated job of two parts, as the broker holds it.
#pragma once

#include "coalloc/job.h"

namespace spider::broker {

inline coalloc::Job sample(const std::string &id, std::int64_t sequence, coalloc::State state) {
    coalloc::Job job;
    job.id = id;
    job.sequence = sequence;
    job.state = state;
    job.plan.outcome = Outcome::planned;
    job.plan.pp = 2;
    job.plan.stages = {{0, 3}, {4, 7}};
    job.plan.parts = {{"a", "h100", {{{0, 0}}}}, {"b", "h100", {{{1, 0}}}}};
    job.parts = {{.site = "a", .job = 12, .user = "alice"}, {.site = "b", .user = "al"}};
    job.directory = "/home/alice/run";
    return job;
}

} // namespace spider::broker
