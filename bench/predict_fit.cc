// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_fit.h"

#include "bench/predict_clusters.h"
#include "bench/predict_dtfm.h"

#include <cmath>
#include <limits>
#include <optional>

namespace spider::bench {

namespace {

constexpr int least = 20, most = 80; // hundredths

double square(const Prediction &one) { return std::pow(std::log(one.predicted / one.measured), 2); }

using Rows = std::vector<Prediction>;

// All rows with every efficiency, so that each set of rows is fitted without pricing again.
class Grid {
  public:
    template <class F>
    explicit Grid(F predict) {
        for (int hundredths = least; hundredths <= most; ++hundredths)
            rows_.push_back(predict(hundredths / 100.0));
    }

    [[nodiscard]] std::size_t best(std::optional<std::size_t> without = {}) const {
        std::size_t best = 0;
        double fewest = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            auto sum = squares(rows_[i]);
            if (without) sum -= square(rows_[i][*without]);
            if (sum < fewest) fewest = sum, best = i;
        }
        return best;
    }

    [[nodiscard]] Fit fit(const std::string &gpu, const std::string &source) const {
        const auto at = best();
        Fit fit{gpu, source, (least + static_cast<int>(at)) / 100.0, rows_[at], {}};
        for (std::size_t row = 0; rows_[at].size() > 1 && row < rows_[at].size(); ++row)
            fit.left_out.push_back(rows_[best(row)][row]);
        return fit;
    }

  private:
    std::vector<Rows> rows_;
};

} // namespace

double squares(const std::vector<Prediction> &predictions) {
    double sum = 0;
    for (const auto &one : predictions)
        sum += square(one);
    return sum;
}

std::vector<Fit> fit_all(const Measured &measured) {
    const Grid a100(
        [&](double efficiency) { return predict_megatron(measured, Attention::scores, efficiency); });
    const Grid fused(
        [&](double efficiency) { return predict_megatron(measured, Attention::fused, efficiency); });
    const Grid h100([&](double efficiency) { return predict_llama(measured, efficiency); });
    const Grid v100([&](double efficiency) { return Rows{predict_pipelines(measured, efficiency).front()}; });
    return {a100.fit("a100", "Megatron-LM, SC'21, table 1"), h100.fit("h100", "Llama 3, table 4"),
            v100.fit("v100", "DT-FM, one pipeline in a LAN"),
            fused.fit("a100, not used", "the same table, as if with fused attention")};
}

} // namespace spider::bench
