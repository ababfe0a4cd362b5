// SPDX-License-Identifier: GPL-3.0-or-later
// Workload against sums made layer by layer, and models given by their costs against the file's own numbers.
#include "model/model_file.h"
#include "plan/memory.h"
#include "plan/workload.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

namespace spider::plan {
namespace {

const std::vector<GpuType> gpus{*model::gpu_type_named("v100"), *model::gpu_type_named("h100")};

JobSpec of_file(const std::string &name) {
    auto file = model::read_model_file(SF_TEST_DATA "/models/" + name);
    EXPECT_TRUE(file) << file.error().what;
    auto spec = job(file->model);
    spec.sequence = file->sequence;
    return spec;
}

TEST(Workload, AnyRunOfLayersIsTheSumOfItsLayers) {
    const auto spec = job(llama_13b());
    const Workload work(spec, 2, gpus);
    const auto layer = layer_times(spec, gpus[1], 2), head = head_times(spec, gpus[1], 2);
    EXPECT_DOUBLE_EQ(work.times(1, 3, 7).forward, 5 * layer.forward);
    EXPECT_DOUBLE_EQ(work.times(1, 35, 39).both(), 5 * layer.both() + head.both());
    EXPECT_DOUBLE_EQ(work.fastest(3, 7), 5 * layer.both()) << "the h100's";
    EXPECT_EQ(work.times(0, 3, 7).both(), work.times(0, 21, 25).both());
}

TEST(Workload, AnExplicitModelCostsWhatItsFileSays) {
    const auto spec = of_file("bench-13b.json");
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

} // namespace
} // namespace spider::plan
