// SPDX-License-Identifier: GPL-3.0-or-later
// The two link formulas alone, against NCCL on DT-FM's emulated links.
#pragma once

#include "bench/predict_run.h"

#include <vector>

namespace spider::bench {

std::vector<Prediction> predict_all_reduces(const Measured &measured); // plan::ring_seconds()
std::vector<Prediction> predict_messages(const Measured &measured);    // plan::Boundary

} // namespace spider::bench
