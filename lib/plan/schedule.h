// SPDX-License-Identifier: GPL-3.0-or-later
// A schedule as data: what each device of one pipeline does, in order. For the exact time of interleaved
// schedules, to judge a schedule before a trainer gets it, and as a second opinion on stage_ends(). Pure
// functions.
#pragma once

#include "model/job_spec.h"
#include "plan/pipeline.h"
#include "util/result.h"

#include <span>
#include <vector>

namespace spider::plan {

struct Operation {
    enum class Kind { forward, backward };
    Kind kind = Kind::forward;
    int chunk = 0;
    int micro_batch = 0;
    bool operator==(const Operation &) const = default;
};

// Chunk c of device d is virtual stage c * devices + d: a micro-batch passes all devices, then all again.
struct Schedule {
    int chunks = 1; // of each device
    int micro_batches = 0;
    std::vector<std::vector<Operation>> devices;
    bool operator==(const Schedule &) const = default;
};

// Depths as for period(); those above `micro_batches` count as it.
Schedule one_f_one_b(std::span<const int> depths, int micro_batches);

Schedule gpipe(int devices, int micro_batches); // all forwards, then all backwards

// Megatron-LM's: `group` micro-batches (0: as many as devices) through one chunk, then the same through the
// next; 2 * (devices - device - 1) + (chunks - 1) * group forwards before forward and backward take turns.
// github.com/NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/schedules.py
Result<Schedule> interleaved(int devices, int chunks, int micro_batches, int group = 0);

// When each device ends. An operation starts as soon as its device has done the one before and its input is
// there. times[device][chunk]; boundaries[d] lies between device d and d + 1, with two chunks or more the
// last one between the last device and the first. The chunks of a device share its links, one message after
// the other. A blocking send keeps its device until the message has arrived. An Error names the device when
// an operation is missing, is there twice, or would wait for ever.
Result<std::vector<Seconds>> run(const Schedule &schedule, std::span<const std::vector<StageTime>> times,
                                 std::span<const Boundary> boundaries, Sends sends);

} // namespace spider::plan
