// SPDX-License-Identifier: GPL-3.0-or-later
// The efficiencies of lib/model/gpu_table.cc: for each GPU type the one, in hundredths, with the least sum of
// squares of log(predicted / measured).
#pragma once

#include "bench/predict_run.h"

#include <string>
#include <vector>

namespace spider::bench {

struct Fit {
    std::string gpu, source;
    double efficiency = 0;
    std::vector<Prediction> predictions; // with it
    std::vector<Prediction> left_out;    // each with what the other rows give; empty where there is only one
};

double squares(const std::vector<Prediction> &predictions); // the sum that a fit makes least

std::vector<Fit> fit_all(const Measured &measured);

} // namespace spider::bench
