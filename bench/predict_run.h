// SPDX-License-Identifier: GPL-3.0-or-later
// A training run that somebody else did, told in the planner's words, and what plan::price() says of it.
#pragma once

#include "bench/predict_data.h"
#include "federation/federation.h"
#include "model/job_spec.h"
#include "plan/web.h"

#include <string>
#include <string_view>
#include <vector>

namespace spider::bench {

struct Prediction {
    std::string what;
    double measured = 0, predicted = 0;
    [[nodiscard]] double error() const { return predicted / measured - 1; }
};

double mean_error(const std::vector<Prediction> &predictions); // mean of |error|
double worst_error(const std::vector<Prediction> &predictions);

struct Run {
    Federation federation;
    JobSpec job;
    plan::Web web;
    int chunks = 1; // of each stage; more than one: Megatron-LM's interleaved schedule
};

// Seconds of an iteration; plan::never where price() refuses the web. The schedule of an interleaved run is
// run operation by operation (plan/schedule.h) on the stage times, boundaries, all-reduces and tied
// embedding of price().
Seconds seconds_of(const Run &run);

// GPUs of this type; memory is no limit, since the runs did run.
GpuType gpu_of(std::string_view name, double efficiency = 0); // 0: as the table of GPU types says

ModelSpec gpt(int layers, int hidden, int heads, int vocab, int positions);

// `layers` over stages as evenly as chunks of equal size allow, first and last chunk one layer shorter if it
// must be (Llama 3, section 3.3.2).
std::vector<int> layers_of_chunks(int layers, int stages, int chunks);

// One data centre: nodes of eight GPUs, each node on `gbps` of network.
Run in_data_centre(JobSpec job, const GpuType &gpu, const ParallelSizes &sizes, int chunks, double gbps);

} // namespace spider::bench
