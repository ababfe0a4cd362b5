// SPDX-License-Identifier: GPL-3.0-or-later
// Time of a 1F1B pipeline with asynchronous sends: the period per micro-batch in closed form, and the
// smallest depths that hide the links. All values in seconds of one micro-batch. Pure functions.
//
// Stage i does k_i forwards, then one backward and one forward in turn. Its event graph's maximum cycle mean
// is
//   tau = max( max t_i, max o_i, max_{i<j} (sum_{l=i..j} t_l + sum_{l=i..j-1} (c_l + c'_l)) / (k_i - k_j + 1)
//   )
// with t = forward + backward, o = occupancy of a link, c = latency + occupancy.
#pragma once

#include "util/clock.h"

#include <span>
#include <vector>

namespace spider::plan {

struct StageTime {
    Seconds forward = 0, backward = 0;
    [[nodiscard]] Seconds both() const { return forward + backward; }
};

// Between stage i and i+1, for one of the D pipelines.
struct Boundary {
    Seconds latency = 0, occupancy = 0;           // activations, to i+1
    Seconds back_latency = 0, back_occupancy = 0; // gradients, to i
    [[nodiscard]] Seconds both() const { return latency + occupancy + back_latency + back_occupancy; }
    [[nodiscard]] Seconds busiest() const { return occupancy > back_occupancy ? occupancy : back_occupancy; }
};

struct Pipeline {
    std::vector<StageTime> stages;
    std::vector<Boundary> boundaries; // one less than stages
};

struct Period {
    enum class Kind { stage, link, round_trip };
    Seconds seconds = 0;
    Kind kind = Kind::stage;
    int from = 0, to = 0; // stages: itself; both ends of the link; both ends of the binding cycle
};

// `depths` not increasing, each at least 1. A stage that holds all `micro_batches` waits for no backward: as
// if endless.
Period period(const Pipeline &pipeline, std::span<const int> depths, int micro_batches);

// The least k_i that reach the period which no depth can beat (max t, max o), each at most caps[i] >= 1, not
// increasing.
std::vector<int> hiding_depths(const Pipeline &pipeline, std::span<const int> caps);

Seconds one_pass(const Pipeline &pipeline); // one micro-batch alone, forward and back

// An iteration without gradients: one_pass + (M - 1) * tau. An estimate, mostly from above: an event
// simulation took longer in 0.5 % of 20,000 random pipelines, by up to 7 %, or 23 % where a stage holds all
// micro-batches.
Seconds pipeline_seconds(const Pipeline &pipeline, const Period &period, int micro_batches);

} // namespace spider::plan
