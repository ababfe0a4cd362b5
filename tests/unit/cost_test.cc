// SPDX-License-Identifier: GPL-3.0-or-later
// Costs against published numbers: parameter counts of released models, Megatron-LM's FLOP formula, the
// activation table of Korthikanti et al.
#include "model/model_file.h"
#include "plan/bounds.h"
#include "plan/cost.h"
#include "plan/memory.h"
#include "plan/workload.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

namespace spider::plan {
namespace {

double parameters(const ModelSpec &model) {
    const double all =
        model.layers * layer_parameters(model, 0) + embedding_parameters(model) + head_parameters(model);
    return model.tied_embeddings ? all - static_cast<double>(model.vocab) * model.hidden : all;
}

// The shape of Megatron-LM's GPT models.
JobSpec gpt(int layers, int hidden, int heads, int sequence, int micro_batch) {
    ModelSpec model{"GPT2LMHeadModel", layers, hidden,   4 * hidden, heads, heads,
                    hidden / heads,    51200,  sequence, false,      true};
    JobSpec spec{.model = model};
    spec.sequence = sequence, spec.micro_batch = micro_batch;
    return spec;
}

TEST(Cost, ParametersAreThoseOfTheReleasedModels) {
    EXPECT_EQ(parameters(llama_13b()), 13'015'864'320);
    EXPECT_EQ(parameters(llama_70b()), 70'553'706'496);
    EXPECT_EQ(parameters(gpt2()), 124'439'808);
}

TEST(Cost, FlopsFollowMegatronsFormulaButForTheCausalHalf) {
    // SC'21, section 5.1: F = 96 B s l h^2 (1 + s/(6h) + V/(16 l h)), recomputation counted, attention in
    // full.
    const auto spec = gpt(24, 2304, 24, 2048, 3);
    const double b = 3, s = 2048, l = 24, h = 2304, v = 51200;
    const double published = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    const double ours = 4 * l * (layer_flops(spec, 0) + attention_flops(spec, 0)) + 3 * head_flops(spec);
    EXPECT_NEAR(ours / published, 1, 1e-12);
}

TEST(Cost, BackwardIsTwiceTheForwardAndRecomputationOneMore) {
    auto spec = job(llama_13b());
    const auto gpu = *model::gpu_type_named("h100");
    const auto plain = layer_times(spec, gpu, 1, 0);
    EXPECT_DOUBLE_EQ(plain.backward, 2 * plain.forward);
    EXPECT_DOUBLE_EQ(plain.forward, layer_flops(spec, 0) / (gpu.peak_flops * gpu.efficiency));
    spec.recompute = Recompute::full;
    EXPECT_DOUBLE_EQ(layer_times(spec, gpu, 1, 0).backward, 3 * plain.forward);
    spec.recompute = Recompute::selective;
    EXPECT_GT(layer_times(spec, gpu, 1, 0).backward, plain.backward);
    EXPECT_LT(layer_times(spec, gpu, 1, 0).backward, 1.2 * plain.backward);
    spec.recompute = Recompute::none, spec.precision = Precision::fp32;
    EXPECT_DOUBLE_EQ(layer_times(spec, gpu, 1, 0).forward, 2 * plain.forward);
}

TEST(Cost, TensorParallelismIsLessThanProportional) {
    const auto spec = job(llama_13b());
    const auto gpu = *model::gpu_type_named("a100");
    for (const int tp : {2, 4, 8}) {
        const double faster = layer_times(spec, gpu, 1, 0).both() / layer_times(spec, gpu, tp, 0).both();
        EXPECT_GT(faster, 0.5 * tp);
        EXPECT_LT(faster, tp);
    }
}

const std::vector<GpuType> h100{*model::gpu_type_named("h100")};

TEST(Memory, ActivationsAreThoseOfThePaperWithAFusedKernel) {
    // Korthikanti et al. 2022: s b h (10 + 24/t + 5 a s/(h t)); a fused kernel keeps no 5 a s / (h t).
    const auto spec = gpt(1, 6144, 64, 2048, 2);
    const auto flight = [](const JobSpec &job, int tp) {
        const Workload work(job, tp, h100);
        return work.memory(0, 0, 2, 1) - work.memory(0, 0, 1, 1);
    };
    for (const int t : {1, 2, 8})
        EXPECT_NEAR(flight(spec, t) / (2048.0 * 2 * 6144 * (10 + 24.0 / t)), 1, 1e-12);
    auto full = spec;
    full.recompute = Recompute::full; // 2 s b h: the layer's input
    EXPECT_NEAR(flight(full, 8) / (2.0 * 2048 * 2 * 6144), 1, 1e-12);
}

TEST(Memory, StateIsEighteenBytesPerParameterAndShrinksWithTheOptimizerShared) {
    // Megatron-LM, docs of the distributed optimizer: bf16 with fp32 gradients, 18 bytes, or 6 + 12/d.
    const auto spec = gpt(4, 1024, 16, 1024, 1);
    const Workload work(spec, 1, h100);
    for (const int d : {1, 4}) {
        const auto second = work.memory(1, 2, 0, d) - work.memory(1, 1, 0, d);
        EXPECT_NEAR(second / layer_parameters(spec.model, 0), 6 + 12.0 / d, 1e-9);
    }
}

TEST(Memory, EndsOfThePipelineAreHeavierAndTiedEmbeddingsAreHeldTwice) {
    auto spec = job(gpt2());
    const Workload work(spec, 1, h100);
    const auto middle = work.memory(5, 5, 1, 1), first = work.memory(0, 0, 1, 1),
               last = work.memory(11, 11, 1, 1);
    EXPECT_GT(first, middle + 18.0 * 50257 * 768);
    EXPECT_GT(last, middle + 18.0 * 50257 * 768);
    spec.model.layers = 1;
    const auto both = Workload(spec, 1, h100).memory(0, 0, 1, 1);
    EXPECT_LT(both, first + last - middle - 17.0 * 50257 * 768);
}

JobSpec of_file(const std::string &name) {
    const auto file = model::read_model_file(SF_TEST_DATA "/models/" + name + ".json");
    EXPECT_TRUE(file) << file.error().what;
    auto spec = job(file->model);
    spec.sequence = file->sequence;
    return spec;
}

TEST(Memory, StatesOfTheStagesSumToAllParametersHoweverLayersAreSplit) {
    for (const auto *name : {"llama-2-13b", "deepseek-v2-lite", "mixtral-8x7b"}) {
        const auto spec = of_file(name);
        const Workload work(spec, 1, h100);
        const int last = work.layers() - 1;
        for (const int cut : {0, 5, last - 1}) {
            const auto logits = logits_bytes(spec, 1);
            const auto sum = work.memory(0, cut, 0, 1) + work.memory(cut + 1, last, 0, 1) - logits;
            EXPECT_NEAR(sum / (18 * all_parameters(spec.model)), 1, 1e-12) << name;
        }
    }
}

TEST(Memory, IsCountedForEachStageAndNotAveraged) {
    // github.com/NVIDIA-NeMo/Megatron-Bridge, pull 5077: stages of 1, 2, 2 and 3 layers.
    const auto spec = of_file("llama-2-13b");
    const Workload work(spec, 1, h100);
    const auto one = work.memory(2, 2, 1, 1);
    EXPECT_NEAR(work.memory(5, 7, 1, 1) / one, 3, 1e-12);
    EXPECT_GT(work.memory(0, 0, 4, 1), work.memory(1, 1, 4, 1)) << "the embedding";
    EXPECT_GT(work.memory(39, 39, 1, 1), one) << "head and logits";
    EXPECT_GT(work.memory(0, 4, 8, 1), work.memory(20, 24, 4, 1)) << "early stages hold more in flight";
}

TEST(Memory, TheEmbeddingOfALargeVocabularyWeighsMoreThanALayer) {
    // github.com/bigscience-workshop/Megatron-DeepSpeed, issue 186: BLOOM's layers have 12 x 14336 x 14336
    // parameters, the embedding of its 250k words 1.46 times as many.
    ModelSpec bloom{"GPT2LMHeadModel", 70, 14336, 57344, 112, 112, 128, 250880, 0, false, true};
    auto spec = job(bloom);
    const Workload work(spec, 1, h100);
    const auto layer = work.memory(1, 1, 0, 1);
    EXPECT_NEAR((work.memory(0, 0, 0, 1) - layer) / layer, 250880.0 / (12 * 14336), 0.01);
    EXPECT_EQ(work.tied_gradient(), 250880.0 * 14336 * 4);
    EXPECT_GT(work.times(0, 69, 69).forward, 2 * work.times(0, 68, 68).forward) << "so does the head";
}

TEST(Memory, ExpertsAreDividedByTheTensorSizeOnce) {
    // github.com/NVIDIA-NeMo/Megatron-Bridge, pull 3744. Qwen3-30B-A3B: 128 experts of 3 x 2048 x 768.
    const auto spec = of_file("qwen3-30b-a3b");
    const auto layer = [&](int tp) { return Workload(spec, tp, h100).memory(1, 1, 0, 1); };
    EXPECT_NEAR(layer(1) / layer(4), 4, 1e-12);
    const double experts = 128.0 * 3 * 2048 * 768;
    EXPECT_GT(layer(4), 18 * experts / 4);
    EXPECT_LT(layer(4), 1.1 * 18 * experts / 4);
}

TEST(Memory, ActivationsOfExpertsAreCounted) {
    // github.com/NVIDIA/Megatron-LM, issue 1784. Mixtral: 2 of 8 experts for each token; per token and
    // chosen expert the token's copy, 4 values for each of 14336 columns, and the output.
    const auto mixture = of_file("mixtral-8x7b"), dense = of_file("mistral-7b");
    for (const int tp : {1, 8}) {
        const auto more = layer_activations(mixture, tp, 0) - layer_activations(dense, tp, 0);
        const auto by_hand = 2.0 * (2 * (4096 + 4096) + 8 + 4.0 * 14336 / tp) * mixture.sequence;
        EXPECT_NEAR(more / by_hand, 1, 1e-12) << tp;
    }
}

TEST(Memory, SelectiveRecomputationSavesLessThanFull) {
    // github.com/NVIDIA/Megatron-LM, issue 1225: with a fused kernel selective recomputation saves little.
    for (const auto *name : {"llama-2-13b", "deepseek-v2-lite", "gpt2"}) {
        auto spec = of_file(name);
        const auto with = [&](Recompute recompute) {
            spec.recompute = recompute;
            return layer_in_flight(spec, 2, 1);
        };
        const auto none = with(Recompute::none), some = with(Recompute::selective),
                   full = with(Recompute::full);
        EXPECT_LT(some, none);
        EXPECT_GT(some, 0.8 * none) << name;
        EXPECT_LT(full, 0.2 * none) << name;
    }
}

TEST(Memory, ZeroSharesTheOptimizerAndNothingElse) {
    const auto spec = of_file("llama-2-13b");
    const Workload work(spec, 2, h100);
    const auto parameters = 5 * layer_parameters(spec.model, 0) / 2;
    EXPECT_NEAR((work.memory(1, 5, 3, 1) - work.memory(1, 5, 3, 4)) / (12 * parameters * 3 / 4), 1, 1e-9);
}

TEST(Memory, TheDepthIsTheGreatestThatFits) {
    for (const auto *name : {"deepseek-v2-lite", "llama-2-13b"}) {
        for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            auto spec = of_file(name);
            spec.recompute = recompute;
            for (const double gigabytes : {5.0, 10.0, 24.0, 80.0}) {
                const GpuType gpu{.name = "x", .peak_flops = 1e12, .memory = gigabytes * 1e9};
                const Workload work(spec, 2, {&gpu, 1});
                const int end = work.layers() - 1;
                for (const auto &[first, last] : {std::pair{0, 2}, {1, 1}, {20, 26}, {end, end}}) {
                    const int depth = work.depth_within(0, first, last, 4);
                    EXPECT_TRUE(depth == 0 || work.memory(first, last, depth, 4) <= gpu.memory);
                    EXPECT_GT(work.memory(first, last, depth + 1, 4), gpu.memory);
                }
            }
        }
    }
}

TEST(Bound, IsAllWorkOnAllGpus) {
    const auto federation = clique({site("s1", 1, 4), site("s2", 1, 4)});
    const auto spec = job(llama_13b());
    std::vector<Pool> pools;
    for (const auto &one : federation.sites())
        pools.push_back(pool_of(one, {}));
    const auto bound = [&](const JobSpec &one) {
        return Bounds(Problem(federation, one, pools, 0)).of_job();
    };
    const double flops = 64 * 3 * (40 * layer_flops(spec, 0) + head_flops(spec));
    const auto &gpu = pools[0].gpu;
    const double rate = gpu.peak_flops * gpu.efficiency;
    EXPECT_NEAR(bound(spec) / (flops / (8 * rate)), 1, 1e-12);
    auto fixed = spec;
    fixed.tp = 1, fixed.pp = 2, fixed.dp = 1;
    EXPECT_NEAR(bound(fixed) / (flops / (2 * rate)), 1, 1e-12);
}

} // namespace
} // namespace spider::plan
