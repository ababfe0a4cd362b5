// SPDX-License-Identifier: GPL-3.0-or-later
// One data centre: Megatron-LM's table 1 on A100, Llama 3's table 4 on H100, one efficiency for each type.
#pragma once

#include "bench/predict_run.h"

#include <vector>

namespace spider::bench {

// Which attention kernel a prediction assumes.
enum class Attention {
    fused,  // as the planner does: causal, scores never leave the chip
    scores, // as in 2021: the whole square of scores is made, written and read
};

// `efficiency` 0: as the table of GPU types says.
std::vector<Prediction> predict_megatron(const Measured &measured, Attention attention,
                                         double efficiency = 0); // seconds of an iteration
std::vector<Prediction> predict_llama(const Measured &measured, double efficiency = 0); // TFLOP/s per GPU

} // namespace spider::bench
