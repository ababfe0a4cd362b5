// SPDX-License-Identifier: GPL-3.0-or-later
// What models cost, against published parameter counts, loops over tokens, sums over layers, and the numbers
// of the files themselves.
#include "model/model_file.h"
#include "plan/memory.h"
#include "plan/workload.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spider::plan {
namespace {

const std::vector<GpuType> gpus{*model::gpu_type_named("v100"), *model::gpu_type_named("h100")};

JobSpec of_file(const std::string &name) {
    auto file = model::read_model_file(SF_TEST_DATA "/models/" + name + ".json");
    EXPECT_TRUE(file) << file.error().what;
    JobSpec spec{.model_name = name, .model = file->model};
    spec.sequence = file->sequence, spec.global_batch = 64;
    return spec;
}

// Counts of the checkpoints' safetensors as Hugging Face shows them; DeepSeek-V3's is that of the main model
// with the numbers that balance its experts, without the multi-token prediction module. Gemma 3 4B's is what
// remains of 4,300,079,472 without its vision tower.
TEST(Models, ParametersAreThoseOfThePublishedCheckpoints) {
    const std::vector<std::pair<std::string, double>> published{
        {"llama-2-13b", 13'015'864'320},      {"llama-3.1-8b", 8'030'261'248},
        {"llama-3.1-70b", 70'553'706'496},    {"llama-3.2-1b", 1'235'814'400},
        {"mistral-7b", 7'241'732'096},        {"mixtral-8x7b", 46'702'792'704},
        {"qwen2-7b", 7'615'616'512},          {"qwen1.5-moe-a2.7b", 14'315'784'192},
        {"qwen3-8b", 8'190'735'360},          {"qwen3-30b-a3b", 30'532'122'624},
        {"deepseek-v2-lite", 15'706'484'224}, {"deepseek-v3", 671'026'419'200},
        {"gemma-7b", 8'537'680'896},          {"gemma-2-9b", 9'241'705'984},
        {"gemma-3-1b", 999'885'952},          {"gemma-3-4b", 3'880'263'168},
    };
    for (const auto &[name, parameters] : published)
        EXPECT_EQ(std::llround(all_parameters(of_file(name).model)), std::llround(parameters)) << name;
}

TEST(Models, ActiveParametersAreThoseOfTheReports) {
    EXPECT_NEAR(active_parameters(of_file("mixtral-8x7b").model), 12.9e9, 0.05e9);
    EXPECT_NEAR(active_parameters(of_file("qwen3-30b-a3b").model), 3.3e9, 0.1e9);
    EXPECT_NEAR(active_parameters(of_file("deepseek-v3").model), 37e9, 0.6e9);
    EXPECT_NEAR(active_parameters(of_file("deepseek-v2-lite").model), 2.7e9, 0.1e9);
    EXPECT_EQ(active_parameters(llama_13b()), all_parameters(llama_13b()));
}

TEST(Models, AttentionCountsThePositionsThatEachTokenSees) {
    auto spec = of_file("gemma-2-9b");
    spec.sequence = 8192;
    const auto pairs = [&](int window) {
        double sum = 0;
        for (int token = 0; token < spec.sequence; ++token)
            sum += std::min(token + 1, window);
        return sum;
    };
    const double each = 2.0 * spec.model.heads * (256 + 256);
    EXPECT_NEAR(attention_flops(spec, 0) / (each * pairs(4096)), 1, 1e-3) << "even layers have the window";
    EXPECT_NEAR(attention_flops(spec, 1) / (each * pairs(8192)), 1, 1e-3);
    auto latent = of_file("deepseek-v3"); // keys are 128 + 64 wide, values 128
    latent.sequence = 8192;
    EXPECT_NEAR(attention_flops(latent, 5) / (2.0 * 128 * (192 + 128) * pairs(8192)), 1, 1e-3);
}

TEST(Models, ExpertsCostTheTimeOfTheChosenAndTheBytesOfAll) {
    const auto mixture = of_file("mixtral-8x7b"), dense = of_file("mistral-7b");
    const Workload work(mixture, 1, gpus), plain(dense, 1, gpus);
    const auto faster = work.times(1, 0, 0).both() / plain.times(1, 0, 0).both();
    EXPECT_GT(faster, 1.6) << "two experts instead of one MLP";
    EXPECT_LT(faster, 2);
    EXPECT_NEAR(work.gradient(1, 1) / plain.gradient(1, 1), 6.65, 0.01) << "eight";
}

TEST(Workload, AnyRunOfLayersIsTheSumOfItsLayers) {
    for (const auto *name : {"llama-2-13b", "deepseek-v2-lite", "gemma-2-9b", "gpt2"}) {
        auto spec = of_file(name);
        spec.recompute = Recompute::selective;
        const Workload work(spec, 2, gpus);
        const int layers = work.layers();
        for (const auto &[first, last] :
             {std::pair{0, 0}, {0, layers - 1}, {1, 4}, {layers - 3, layers - 1}}) {
            Seconds forward = 0, slowest = 0;
            Bytes gradient = 0, state = 0, flight = 0;
            for (int layer = first; layer <= last; ++layer) {
                forward += work.times(1, layer, layer).forward;
                slowest += work.times(0, layer, layer).both();
                gradient += work.gradient(layer, layer);
                state += work.memory(layer, layer, 0, 4);
                flight += work.memory(layer, layer, 1, 4) - work.memory(layer, layer, 0, 4);
            }
            const bool tied_once = spec.model.tied_embeddings && first == 0 && last + 1 == layers;
            const auto head = tied_once ? head_parameters(spec.model) : 0;
            EXPECT_NEAR(work.times(1, first, last).forward / forward, 1, 1e-9);
            EXPECT_NEAR(work.times(0, first, last).both() / slowest, 1, 1e-9);
            EXPECT_NEAR(work.gradient(first, last) / (gradient - 4 * head), 1, 1e-9);
            EXPECT_NEAR(work.memory(first, last, 0, 4) / (state - 9 * head / 2), 1, 1e-9);
            EXPECT_NEAR(work.memory(first, last, 3, 4) - work.memory(first, last, 0, 4), 3 * flight,
                        1e-6 * flight);
            EXPECT_EQ(work.fastest(first, last), work.times(1, first, last).both());
        }
    }
}

TEST(Workload, LayersThatAreAlikeCostTheSameWhereverTheyAre) {
    const Workload work(of_file("llama-2-13b"), 2, gpus);
    for (int first = 1; first < 34; ++first) {
        EXPECT_EQ(work.times(0, first, first + 4).both(), work.times(0, 0, 4).both());
        EXPECT_EQ(work.memory(first, first + 4, 3, 2), work.memory(1, 5, 3, 2));
    }
}

TEST(Workload, AnExplicitModelCostsWhatItsFileSays) {
    const auto spec = of_file("bench-13b");
    EXPECT_EQ(spec.sequence, 1);
    const Workload work(spec, 8, gpus);
    EXPECT_EQ(work.layers(), 40);
    EXPECT_DOUBLE_EQ(work.times(0, 0, 4).forward, 5 * 0.002377142857142857);
    EXPECT_DOUBLE_EQ(work.times(1, 35, 39).backward, 5 * 0.004754285714285714);
    EXPECT_EQ(work.boundary(), 41943040);
    EXPECT_EQ(work.gradient(0, 4), 5 * 650e6);
    EXPECT_EQ(work.tied_gradient(), 0);
    EXPECT_EQ(work.memory(0, 39, 100, 1), 0);
    EXPECT_GT(work.depth_within(0, 0, 39, 1), 1'000'000);
}

TEST(Workload, AnExplicitModelMayDifferByLayerAndByGpu) {
    ModelSpec model;
    model.layers = 3;
    model.costs = {.times = {{"", {1, 2, 4}, {3}}, {"v100", {10}, {20, 30, 40}}},
                   .boundary = 5,
                   .gradient = {7, 8, 9},
                   .state = {100, 0, 50},
                   .activation = {10, 20, 30}};
    auto spec = job(model);
    const auto small = GpuType{.name = "h100", .memory = 120};
    const std::vector<GpuType> two{*model::gpu_type_named("v100_32gb"), small};
    const Workload work(spec, 2, two);
    EXPECT_EQ(work.times(1, 1, 2).forward, 6);
    EXPECT_EQ(work.times(1, 1, 2).backward, 6);
    EXPECT_EQ(work.times(0, 1, 2).forward, 20) << "the v100's";
    EXPECT_EQ(work.times(0, 1, 2).backward, 70);
    EXPECT_EQ(work.fastest(0, 1), 9);
    EXPECT_EQ(work.gradient(1, 2), 17);
    EXPECT_EQ(work.memory(0, 2, 3, 8), (150 + 3 * 60) / 2.0)
        << "of a slot of two GPUs; no optimizer to share";
    EXPECT_EQ(work.depth_within(1, 0, 2, 1), 1) << "75 + 30, not 75 + 60";
    EXPECT_EQ(work.available(1), 120);
}

TEST(Workload, AMeasurementIsWhatTheMeasuredGpuTakes) {
    const auto spec = of_file("profile-13b"); // a100, tp 8
    const std::vector<GpuType> two{*model::gpu_type_named("a100"), *model::gpu_type_named("h100")};
    const Workload work(spec, 8, two);
    EXPECT_NEAR(work.times(0, 0, 9).forward, 0.03, 1e-12);
    EXPECT_NEAR(work.times(0, 0, 9).backward, 0.06, 1e-12);
    EXPECT_NEAR(work.times(0, 39, 39).both(), 0.009 + 0.006, 1e-12);
    // Other conditions are the formulas', as much slower as the measured ones were.
    const auto ratio = 0.003 / layer_times(spec, two[0], 8, 0).forward;
    EXPECT_NEAR(work.times(1, 0, 0).forward / layer_times(spec, two[1], 8, 0).forward, ratio, 1e-9);
    const Workload narrow(spec, 2, two);
    EXPECT_NEAR(narrow.times(0, 0, 0).forward / layer_times(spec, two[0], 2, 0).forward, ratio, 1e-9);
    EXPECT_EQ(work.memory(0, 9, 2, 2), Workload(of_file("llama-2-13b"), 8, two).memory(0, 9, 2, 2));
}

TEST(Workload, OfSeveralMeasurementsTheLikestCounts) {
    auto spec = of_file("profile-13b");
    auto other = spec.model.measurements.front();
    other.layers = {"h100", {0.001}, {0.002}};
    other.head_forward = other.head_backward = 0;
    spec.model.measurements.push_back(other);
    other.tp = 4, other.layers.forward = {0.0017};
    spec.model.measurements.push_back(other);
    const auto h100 = *model::gpu_type_named("h100_80gb_hbm3");
    EXPECT_NEAR(Workload(spec, 8, {&h100, 1}).times(0, 0, 0).forward, 0.001, 1e-12);
    EXPECT_NEAR(Workload(spec, 4, {&h100, 1}).times(0, 0, 0).forward, 0.0017, 1e-12);
    const Workload work(spec, 8, {&h100, 1}); // no head: as much slower as the layers
    const auto head = work.times(0, 39, 39).forward - work.times(0, 38, 38).forward;
    EXPECT_NEAR(head / head_times(spec, h100, 8).forward, 0.001 / layer_times(spec, h100, 8, 0).forward,
                1e-9);
}

TEST(TensorSize, MustDivideHeadsAndMatrices) {
    const auto trouble = [](const char *name, int tp) {
        return trouble_with_tensor_size(of_file(name).model, tp);
    };
    EXPECT_EQ(trouble("llama-2-13b", 8), "");
    EXPECT_EQ(trouble("llama-3.1-8b", 16), "") << "keys' heads are held twice";
    EXPECT_EQ(trouble("llama-2-13b", 3),
              "tp=3 does not divide the model's 40 heads (40 for keys) and 13824 MLP columns");
    EXPECT_EQ(trouble("qwen3-30b-a3b", 8), "");
    EXPECT_EQ(trouble("deepseek-v2-lite", 16), "");
    EXPECT_EQ(trouble("deepseek-v2-lite", 32),
              "tp=32 does not divide the model's 16 heads (16 for keys) and 10944 MLP columns, 1408 columns "
              "of an expert, 2816 of the shared ones");
    auto narrow = of_file("mixtral-8x7b").model;
    narrow.intermediate = 1; // no layer has an MLP of that width
    EXPECT_EQ(trouble_with_tensor_size(narrow, 8), "");
    EXPECT_EQ(trouble("bench-13b", 7), "") << "the file does not say for which";
    auto fixed = of_file("bench-13b").model;
    fixed.costs->tp = 8;
    EXPECT_EQ(trouble_with_tensor_size(fixed, 8), "");
    EXPECT_EQ(trouble_with_tensor_size(fixed, 4), "tp=4: the model's numbers hold for tp=8");
}

} // namespace
} // namespace spider::plan
