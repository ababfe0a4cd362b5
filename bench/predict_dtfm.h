// SPDX-License-Identifier: GPL-3.0-or-later
// DT-FM's experiments: 64 machines with one V100 each behind emulated links, GPT3-XL layers, eight stages by
// eight pipelines.
#pragma once

#include "bench/predict_run.h"

#include <vector>

namespace spider::bench {

constexpr int dtfm_pipelines = 8;

// What the experiments leave open.
struct Reading {
    Sends sends = Sends::blocking;
    double delay = 1;                      // of the delay that the topology names, one way
    Precision gradients = Precision::fp16; // bf16: reduced in fp32
};

// One row of measurements under one reading. 0: not measured.
struct DtfmPrediction {
    DtfmRow row;
    Prediction megatron;        // machine d + 8 * i is member d of stage i: Megatron-LM's order of ranks
    Prediction megatron_random; // mean of the draws
    Seconds least_random = 0;   // of the draws
    Prediction gpipe;           // each pipeline inside one city; the layout that DT-FM found is not published
    Prediction gpipe_random;
};

Result<std::vector<DtfmPrediction>> predict_dtfm(const std::string &folder, const Measured &measured,
                                                 int network, const Reading &reading);

// DT-FM's single pipeline over five networks: from its profile (efficiency 0), or from FLOPs alone.
std::vector<Prediction> predict_pipelines(const Measured &measured, double efficiency = 0);

// What Megatron-LM did, and what DT-FM's own system did, both placements of each.
std::vector<Prediction> megatron_of(const std::vector<DtfmPrediction> &rows);
std::vector<Prediction> gpipe_of(const std::vector<DtfmPrediction> &rows);

// Rows whose placements the prediction puts in the measured order: Megatron-LM's before every random draw,
// and inside DT-FM's own system scheduled before random.
int in_order(const std::vector<DtfmPrediction> &rows);

} // namespace spider::bench
