// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_dtfm.h"

#include "plan/price.h"
#include "util/text.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace spider::bench {

namespace {

constexpr int stages = 8, pipelines = dtfm_pipelines, sequence = 2048, draws = 20;
constexpr int everything = 1'000'000; // micro-batches in flight: GPipe's order

// GPT3-XL's width. Megatron-LM trains the vocabulary's head, DT-FM's own system a classifier of two words.
ModelSpec gpt_xl(int layers, int vocab) { return gpt(layers, 2048, 16, vocab, sequence); }
constexpr int megatron_vocab = 50304, classes = 2;

// From DT-FM's single pipeline in a LAN: 18 and 54 ms for three layers of one sequence; a backward that is
// three forwards does the forward again.
Measurement profile() {
    return {.layers = {"v100", {18e-3 / 3}, {54e-3 / 3}},
            .micro_batch = 1,
            .sequence = sequence,
            .recompute = Recompute::full};
}

JobSpec job_of(int layers, int vocab, int batch) {
    JobSpec job{.model = gpt_xl(layers, vocab),
                .sequence = sequence,
                .global_batch = batch,
                .precision = Precision::fp16,
                .recompute = Recompute::full,
                .tp = 1};
    job.model.measurements = {profile()};
    return job;
}

JobSpec megatron_job(const DtfmRow &row, const Reading &reading) {
    auto job = job_of(row.layers, megatron_vocab, row.batch);
    job.trainer = Trainer::megatron;
    job.sends = reading.sends;
    job.precision = reading.gradients;
    return job;
}

JobSpec gpipe_job(const DtfmRow &row) {
    auto job = job_of(row.layers, classes, row.batch);
    job.depth = everything;
    return job;
}

Site machine(std::size_t number, const GpuType &gpu) {
    Site site{.name = "machine " + std::to_string(number)};
    site.classes = {{gpu, 1, 1, 1, 1}};
    return site;
}

Link link_of(std::size_t from, std::size_t to, const Wire &wire, double delay = 1) {
    return {SiteId{static_cast<int>(from)}, SiteId{static_cast<int>(to)}, wire.bandwidth * 8 / 1e9,
            wire.latency * delay * 2 * 1000};
}

// Each machine is a site: tc limits every pair of machines by itself, so no two flows share anything.
Federation emulated(const Machines &machines, double delay) {
    std::vector<Site> sites;
    std::vector<Link> links;
    const auto gpu = gpu_of("v100-16");
    for (std::size_t i = 0; i < machines.city.size(); ++i) {
        sites.push_back(machine(i, gpu));
        for (std::size_t j = 0; j < machines.city.size(); ++j)
            if (i != j) links.push_back(link_of(i, j, machines.between(i, j), delay));
    }
    return *Federation::make(std::move(sites), links);
}

std::vector<int> in_file_order() {
    std::vector<int> order(stages * pipelines);
    std::iota(order.begin(), order.end(), 0);
    return order;
}

// order[d + 8 * i] is member d of stage i.
plan::Web web_of(int layers, const std::vector<int> &order) {
    plan::Web web{.shape = {.tp = 1, .stages = stages, .groups = pipelines, .width = 1},
                  .layers = std::vector(stages, layers / stages)};
    for (int d = 0; d < pipelines; ++d)
        for (int i = 0; i < stages; ++i)
            web.cells.push_back(order[static_cast<std::size_t>(d + pipelines * i)]);
    return web;
}

// Cities follow each other in the file: eight machines in a row are one pipeline.
std::vector<int> pipelines_in_cities() {
    std::vector<int> order(stages * pipelines);
    for (int d = 0; d < pipelines; ++d)
        for (int i = 0; i < stages; ++i)
            order[static_cast<std::size_t>(d + pipelines * i)] = d * stages + i;
    return order;
}

class Experiment {
  public:
    Experiment(const Machines &machines, const Reading &reading)
        : federation_(emulated(machines, reading.delay)), reading_(reading) {}

    DtfmPrediction predict(const DtfmRow &row) const {
        const auto name = std::to_string(row.layers) + " layers, batch " + std::to_string(row.batch);
        const auto megatron = megatron_job(row, reading_), gpipe = gpipe_job(row);
        DtfmPrediction result{.row = row};
        result.megatron = {name, row.megatron, seconds(megatron, in_file_order())};
        result.gpipe = {name, row.gpipe, seconds(gpipe, pipelines_in_cities())};
        if (row.megatron_random > 0) {
            const auto times = random(megatron);
            result.megatron_random = {name, row.megatron_random, mean(times)};
            result.least_random = *std::min_element(times.begin(), times.end());
        }
        result.gpipe_random = {name, row.gpipe_random, mean(random(gpipe))};
        return result;
    }

  private:
    static Seconds mean(const std::vector<Seconds> &times) {
        return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    }
    [[nodiscard]] Seconds seconds(const JobSpec &job, const std::vector<int> &order) const {
        return seconds_of({federation_, job, web_of(job.model.layers, order)});
    }
    // The layouts that were drawn then are not published: these are others.
    [[nodiscard]] std::vector<Seconds> random(const JobSpec &job) const {
        std::mt19937 chance(1);
        auto order = in_file_order();
        std::vector<Seconds> times;
        for (int i = 0; i < draws; ++i) {
            std::shuffle(order.begin(), order.end(), chance);
            times.push_back(seconds(job, order));
        }
        return times;
    }

    Federation federation_;
    Reading reading_;
};

} // namespace

Result<std::vector<DtfmPrediction>> predict_dtfm(const std::string &folder, const Measured &measured,
                                                 int network, const Reading &reading) {
    const auto machines = read_machines(folder, network);
    if (!machines) return machines.error();
    const Experiment experiment(*machines, reading);
    std::vector<DtfmPrediction> predictions;
    for (const auto &row : measured.dtfm)
        if (row.network == network) predictions.push_back(experiment.predict(row));
    return predictions;
}

std::vector<Prediction> predict_pipelines(const Measured &measured, double efficiency) {
    const auto gpu = gpu_of("v100-16", efficiency);
    auto job = job_of(24, classes, 96);
    if (efficiency > 0) job.model.measurements.clear();
    job.depth = everything;
    std::vector<Prediction> predictions;
    for (const auto &row : measured.pipelines) {
        std::vector<Site> sites;
        std::vector<Link> links;
        for (std::size_t i = 0; i < stages; ++i) {
            sites.push_back(machine(i, gpu));
            for (std::size_t j = 0; j < stages; ++j)
                if (i != j) links.push_back(link_of(i, j, row.wire));
        }
        const plan::Web web{.shape = {.tp = 1, .stages = stages, .groups = 1, .width = 1},
                            .cells = {0, 1, 2, 3, 4, 5, 6, 7},
                            .layers = std::vector(stages, 3)};
        predictions.push_back(
            {row.wire.name, row.seconds, seconds_of({*Federation::make(std::move(sites), links), job, web})});
    }
    return predictions;
}

namespace {

std::vector<Prediction> measured_of(const std::vector<DtfmPrediction> &rows,
                                    Prediction DtfmPrediction::*placed, Prediction DtfmPrediction::*random) {
    std::vector<Prediction> predictions;
    for (const auto &row : rows)
        for (const auto &one : {row.*placed, row.*random})
            if (one.measured > 0) predictions.push_back(one);
    return predictions;
}

} // namespace

std::vector<Prediction> megatron_of(const std::vector<DtfmPrediction> &rows) {
    return measured_of(rows, &DtfmPrediction::megatron, &DtfmPrediction::megatron_random);
}

std::vector<Prediction> gpipe_of(const std::vector<DtfmPrediction> &rows) {
    return measured_of(rows, &DtfmPrediction::gpipe, &DtfmPrediction::gpipe_random);
}

int in_order(const std::vector<DtfmPrediction> &rows) {
    return static_cast<int>(std::count_if(rows.begin(), rows.end(), [](const DtfmPrediction &row) {
        return row.megatron.measured < row.megatron_random.measured &&
               row.megatron.predicted < row.least_random && row.gpipe.measured < row.gpipe_random.measured &&
               row.gpipe.predicted < row.gpipe_random.predicted;
    }));
}

} // namespace spider::bench
