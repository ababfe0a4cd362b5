// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_print.h"

#include "bench/predict_clusters.h"
#include "bench/predict_dtfm.h"
#include "bench/predict_fit.h"
#include "bench/predict_links.h"

#include <array>
#include <cstdio>

namespace spider::bench {

namespace {

void print_title(const char *title) { std::printf("\n### %s\n\n", title); }

void print_rows(const char *unit, const std::vector<Prediction> &rows) {
    std::printf("| row | measured %s | predicted | error |\n|---|---:|---:|---:|\n", unit);
    for (const auto &row : rows)
        std::printf("| %s | %.4g | %.4g | %+.1f %% |\n", row.what.c_str(), row.measured, row.predicted,
                    100 * row.error());
    std::printf("\nMean of absolute errors %.1f %%, worst %.1f %%.\n", 100 * mean_error(rows),
                100 * worst_error(rows));
}

void print_pair(const Prediction &one) {
    if (one.measured > 0)
        std::printf(" %.2f | %.2f | %+.1f %% |", one.measured, one.predicted, 100 * one.error());
    else
        std::printf(" - | - | - |");
}

void print_case(const std::vector<DtfmPrediction> &rows) {
    std::printf(
        "| layers, batch | Megatron default | predicted | error | Megatron random | predicted | error "
        "| DT-FM scheduled | predicted | error | DT-FM random | predicted | error |\n|---|");
    for (int column = 0; column < 12; ++column)
        std::printf("---:|");
    std::printf("\n");
    for (const auto &row : rows) {
        std::printf("| %d, %d |", row.row.layers, row.row.batch);
        for (const auto *one : {&row.megatron, &row.megatron_random, &row.gpipe, &row.gpipe_random})
            print_pair(*one);
        std::printf("\n");
    }
    const auto megatron = megatron_of(rows), gpipe = gpipe_of(rows);
    std::printf("\nMean of absolute errors, worst: Megatron-LM %.1f %%, %.1f %%; DT-FM %.1f %%, %.1f %%.",
                100 * mean_error(megatron), 100 * worst_error(megatron), 100 * mean_error(gpipe),
                100 * worst_error(gpipe));
    if (rows.front().row.megatron_random > 0)
        std::printf(" Placements in the measured order: %d of %zu rows.", in_order(rows), rows.size());
    std::printf("\n");
}

Result<void> print_readings(const std::string &folder, const Measured &measured) {
    print_title("DT-FM, Megatron-LM's rows under other readings: mean of absolute errors");
    std::printf("| sends | delay one way | gradients | case 3 | in order | case 4 | in order "
                "|\n|---|---|---|---:|---:|---:|---:|\n");
    constexpr std::array readings{Reading{}, Reading{.delay = 0.5}, Reading{.sends = Sends::async},
                                  Reading{.sends = Sends::async, .delay = 0.5},
                                  Reading{.gradients = Precision::bf16}};
    for (const auto &reading : readings) {
        std::printf("| %s | %s | %s |", reading.sends == Sends::blocking ? "blocking" : "async",
                    reading.delay < 1 ? "half of the file's" : "the file's",
                    reading.gradients == Precision::fp16 ? "fp16" : "fp32");
        for (const int network : {3, 4}) {
            const auto rows = predict_dtfm(folder, measured, network, reading);
            if (!rows) return rows.error();
            std::printf(" %.1f %% | %d of %zu |", 100 * mean_error(megatron_of(*rows)), in_order(*rows),
                        rows->size());
        }
        std::printf("\n");
    }
    return {};
}

// Seconds of one micro-batch more, from the least to the greatest batch of equal layers: free of gradients
// and of the pipeline's filling.
struct Slope {
    double measured = 0, predicted = 0;
};

Slope slope(const Prediction &least, const Prediction &greatest, int micro_batches) {
    return {1000 * (greatest.measured - least.measured) / micro_batches,
            1000 * (greatest.predicted - least.predicted) / micro_batches};
}

Result<void> print_slopes(const std::string &folder, const Measured &measured) {
    print_title("DT-FM, Megatron-LM: milliseconds of one micro-batch more");
    std::printf("| case, layers | default | blocking | async | random | blocking | async |\n"
                "|---|---:|---:|---:|---:|---:|---:|\n");
    for (const int network : {3, 4}) {
        const auto blocking = predict_dtfm(folder, measured, network, {.sends = Sends::blocking});
        const auto async = predict_dtfm(folder, measured, network, {.sends = Sends::async});
        if (!blocking || !async) return blocking ? async.error() : blocking.error();
        for (std::size_t first = 0; first + 2 < blocking->size(); first += 3) { // three batches of each
            const auto &least = (*blocking)[first], &most = (*blocking)[first + 2];
            const int more = (most.row.batch - least.row.batch) / dtfm_pipelines;
            std::printf("| %d, %d |", network, least.row.layers);
            for (const auto part : {&DtfmPrediction::megatron, &DtfmPrediction::megatron_random}) {
                const auto waiting = slope(least.*part, most.*part, more);
                const auto going_on = slope((*async)[first].*part, (*async)[first + 2].*part, more);
                std::printf(" %.0f | %.0f | %.0f |", waiting.measured, waiting.predicted, going_on.predicted);
            }
            std::printf("\n");
        }
    }
    return {};
}

} // namespace

void print_clusters(const Measured &measured) {
    print_title("Megatron-LM, SC'21, table 1 (A100, seconds of an iteration)");
    print_rows("s", predict_megatron(measured, Attention::scores));
    print_title("The same, as if its attention had been fused and causal");
    print_rows("s", predict_megatron(measured, Attention::fused));
    print_title("Llama 3 405B, table 4 (H100, TFLOP/s per GPU)");
    print_rows("TFLOP/s", predict_llama(measured));
}

Result<void> print_dtfm(const std::string &folder, const Measured &measured) {
    constexpr std::array titles{"DT-FM, case 1: data centre, on demand (seconds of an iteration)",
                                "DT-FM, case 2: data centre, spot", "DT-FM, case 3: two universities",
                                "DT-FM, case 4: four regions of the US"};
    for (const int network : {3, 4, 1, 2}) {
        const auto rows = predict_dtfm(folder, measured, network, {});
        if (!rows) return rows.error();
        print_title(titles[static_cast<std::size_t>(network - 1)]);
        print_case(*rows);
    }
    if (auto done = print_readings(folder, measured); !done) return done;
    if (auto done = print_slopes(folder, measured); !done) return done;
    print_title("DT-FM, one pipeline of eight stages (GPipe, seconds of an iteration)");
    print_rows("s", predict_pipelines(measured));
    return {};
}

void print_links(const Measured &measured) {
    print_title("NCCL all-reduce against ring_seconds()");
    print_rows("s", predict_all_reduces(measured));
    print_title("NCCL messages against a boundary's latency + occupancy");
    print_rows("s", predict_messages(measured));
}

void print_fits(const Measured &measured) {
    print_title("Efficiencies fitted to these rows");
    std::printf("| GPU | efficiency | rows | source | mean error | worst | worst with the row left out |\n"
                "|---|---:|---:|---|---:|---:|---:|\n");
    for (const auto &fit : fit_all(measured)) {
        std::printf("| %s | %.2f | %zu | %s | %.1f %% | %.1f %% |", fit.gpu.c_str(), fit.efficiency,
                    fit.predictions.size(), fit.source.c_str(), 100 * mean_error(fit.predictions),
                    100 * worst_error(fit.predictions));
        if (fit.left_out.empty())
            std::printf(" - |\n");
        else
            std::printf(" %.1f %% |\n", 100 * worst_error(fit.left_out));
    }
}

} // namespace spider::bench
