// SPDX-License-Identifier: GPL-3.0-or-later
// Time of one pipeline, 1F1B family: the steady period in closed form, the smallest depths that hide the
// links, and the exact times of every iteration by an event recurrence. Seconds of one micro-batch
// throughout. Pure functions.
//
// Stage i does k_i forwards, then one backward and one forward in turn. With sends that do not block, the
// maximum cycle mean of its event graph is
//   tau = max( max t_i, max o_i, max_{i<j} (sum_{l=i..j} t_l + sum_{l=i..j-1} (c_l + c'_l)) / (k_i - k_j + 1)
//   )
// with t = forward + backward, o = occupancy of a link, c = latency + occupancy. A proof sketch: every cycle
// goes right over forwards and left over backwards, and splits into the simple ones named here.
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
    [[nodiscard]] Seconds forward() const { return latency + occupancy; }
    [[nodiscard]] Seconds backward() const { return back_latency + back_occupancy; }
    [[nodiscard]] Seconds both() const { return forward() + backward(); }
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

// Sends that block (Megatron-LM's non-interleaved schedule) keep the sender until the message has arrived:
// its stage is as much slower, and the boundary costs nothing more. The end of a stage then includes its last
// send.
Pipeline with_blocking_sends(const Pipeline &pipeline);

// `depths` not increasing, each at least 1. A stage that holds all `micro_batches` waits for no backward: as
// if endless.
Period period(const Pipeline &pipeline, std::span<const int> depths, int micro_batches);

// What no depth can beat: max t, max o.
Period least_period(const Pipeline &pipeline);

// The smallest k_i, none above caps[i] >= 1, not increasing, that reach the least period which such depths
// can reach (or one that is longer by `tolerance` at most).
std::vector<int> hiding_depths(const Pipeline &pipeline, std::span<const int> caps, double tolerance = 1e-9);

// k_i = first - i, at least 1 and at most caps[i]: 1F1B's own depths when `first` is the number of stages.
std::vector<int> falling_depths(int first, std::span<const int> caps);

Seconds one_pass(const Pipeline &pipeline); // one micro-batch alone, forward and back

// An iteration without gradients: one_pass + (M - 1) * tau. An estimate, mostly from above: an event
// simulation took longer in 0.5 % of 20,000 random pipelines, by up to 7 %, or 23 % where a stage holds all
// micro-batches.
Seconds pipeline_seconds(const Pipeline &pipeline, const Period &period, int micro_batches);

// When each stage ends its last backward, exactly, in O(P * M): each stage does its operations in order as
// soon as their input is there; a link sends one message after the other. Depths as for period(); all equal
// to M is GPipe's schedule.
std::vector<Seconds> stage_ends(const Pipeline &pipeline, std::span<const int> depths, int micro_batches);

} // namespace spider::plan
