// SPDX-License-Identifier: GPL-3.0-or-later
// The cost model against published measurements: what docs/prediction.md promises.
#include "bench/predict_clusters.h"
#include "bench/predict_dtfm.h"
#include "bench/predict_fit.h"
#include "model/gpu_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

namespace spider::bench {
namespace {

const Measured &measured() {
    static const auto all = read_measured(SF_TEST_DATA);
    EXPECT_TRUE(all.ok()) << (all ? "" : all.error().what);
    return *all;
}

const std::vector<DtfmPrediction> &dtfm(int network, Sends sends = Sends::blocking) {
    static std::map<std::pair<int, Sends>, std::vector<DtfmPrediction>> known;
    auto &rows = known[{network, sends}];
    if (!rows.empty()) return rows;
    auto predicted = predict_dtfm(SF_TEST_DATA, measured(), network, {.sends = sends});
    EXPECT_TRUE(predicted.ok()) << (predicted ? "" : predicted.error().what);
    return rows = *std::move(predicted);
}

void expect_within(const std::vector<Prediction> &rows, std::size_t count, double bar) {
    ASSERT_EQ(rows.size(), count);
    for (const auto &row : rows)
        EXPECT_LE(std::abs(row.error()), bar) << row.what << ": " << row.predicted << " for " << row.measured;
}

TEST(Predict, MegatronOverTwoUniversitiesAndOverFourRegionsIsMetWithin15Percent) {
    for (const int network : {3, 4}) {
        const auto rows = megatron_of(dtfm(network));
        ASSERT_EQ(rows.size(), 18U); // nine rows, two placements
        EXPECT_LE(mean_error(rows), 0.15) << "case " << network;
    }
}

TEST(Predict, PlacementsComeInTheMeasuredOrderInEveryRow) {
    for (const int network : {3, 4})
        EXPECT_EQ(in_order(dtfm(network)), 9) << "case " << network;
}

TEST(Predict, MegatronsSendsAreNearerToBlockingThanToAsync) {
    const auto error = [](Sends sends) {
        return mean_error(megatron_of(dtfm(3, sends))) + mean_error(megatron_of(dtfm(4, sends)));
    };
    EXPECT_LT(error(Sends::blocking), error(Sends::async));
}

TEST(Predict, EveryRowOfMegatronsTableIsMetWithin10Percent) {
    expect_within(predict_megatron(measured(), Attention::scores), 10, 0.1);
}

TEST(Predict, EveryRowOfLlamasTableIsMetWithin10Percent) { expect_within(predict_llama(measured()), 3, 0.1); }

// A hundredth more or less of efficiency fits no better.
TEST(Predict, TheTableOfGpuTypesHoldsTheFittedEfficiencies) {
    const auto expect_least = [](const char *gpu, auto predict) {
        const double efficiency = model::gpu_type_named(gpu)->efficiency;
        for (const double other : {efficiency - 0.01, efficiency + 0.01})
            EXPECT_LT(squares(predict(efficiency)), squares(predict(other))) << gpu;
    };
    expect_least("a100", [](double efficiency) {
        return predict_megatron(measured(), Attention::scores, efficiency);
    });
    expect_least("h100", [](double efficiency) { return predict_llama(measured(), efficiency); });
    expect_least("v100", [](double efficiency) {
        return std::vector{predict_pipelines(measured(), efficiency).front()};
    });
}

TEST(Predict, AMissingFileIsNamed) {
    const auto all = read_measured("nowhere");
    ASSERT_FALSE(all);
    EXPECT_NE(all.error().what.find("nowhere/measured.json"), std::string::npos) << all.error().what;
}

} // namespace
} // namespace spider::bench
