// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_links.h"

#include "plan/cost.h"
#include "plan/pipeline.h"
#include "util/text.h"

namespace spider::bench {

namespace {

std::string mebibytes(Bytes bytes) { return util::number(bytes / 1048576) + " MiB"; }

} // namespace

std::vector<Prediction> predict_all_reduces(const Measured &measured) {
    std::vector<Prediction> predictions;
    for (const auto &row : measured.all_reduces)
        predictions.push_back(
            {row.wire.name + ", " + std::to_string(row.machines) + " machines, " + mebibytes(row.bytes),
             row.seconds, plan::ring_seconds(row.bytes, row.machines, row.wire.bandwidth, row.wire.latency)});
    return predictions;
}

std::vector<Prediction> predict_messages(const Measured &measured) {
    std::vector<Prediction> predictions;
    for (const auto &row : measured.messages) {
        const plan::Boundary boundary{.latency = row.wire.latency,
                                      .occupancy = row.bytes / row.wire.bandwidth};
        predictions.push_back({row.wire.name + ", " + mebibytes(row.bytes), row.seconds, boundary.forward()});
    }
    return predictions;
}

} // namespace spider::bench
