// SPDX-License-Identifier: GPL-3.0-or-later
// torchtitan: torchtitan/config/configs.py and distributed/pipeline_parallel.py of August 2026. Its mesh is
// [pp, dp_replicate, dp_shard, cp, tp].
#include "launch/crossing.h"
#include "launch/trainers.h"
#include "util/schedule.h"
#include "util/text.h"

namespace spider::launch {

namespace {

constexpr std::int64_t most_operations = 4'000'000; // of all stages; about 40 MB of text

// "tok_embeddings,layers.0": the modules of one stage.
std::string modules_of(const Plan &plan, const Stage &stage) {
    std::vector<std::string> names;
    if (&stage == &plan.stages.front()) names.emplace_back("tok_embeddings");
    for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer)
        names.push_back("layers." + std::to_string(layer));
    if (&stage == &plan.stages.back()) names.insert(names.end(), {"norm", "lm_head"});
    return util::join(names, ",");
}

void add_pipeline(const Plan &plan, Launch &launch) {
    add(launch, "--parallelism.num_pp_microbatches", plan.micro_batches);
    add(launch, "--parallelism.pipeline_parallel_schedule", "1F1B");
    std::vector<int> depths;
    for (const auto &stage : plan.stages)
        depths.push_back(stage.depth);
    launch.files.push_back({std::string(schedule_file), util::schedule_csv(depths, plan.micro_batches)});
    add(launch, "--parallelism.pipeline_parallel_schedule_csv", "@" + std::string(schedule_file) + "@");
    launch.arguments.emplace_back("--parallelism.module_fqns_per_model_part");
    for (const auto &stage : plan.stages)
        launch.arguments.push_back(modules_of(plan, stage));
}

} // namespace

Result<Launch> torchtitan(const Plan &plan) {
    const auto operations = 2 * std::int64_t{plan.pp} * plan.micro_batches;
    if (plan.pp > 1 && operations > most_operations)
        return Error{Errc::invalid, "torchtitan would read a schedule of " + std::to_string(operations) +
                                        " operations, more than " + std::to_string(most_operations) +
                                        ": use a larger mbs, or fewer stages"};
    Launch launch;
    const int together = Sites(plan).members_together();
    add(launch, "--parallelism.pipeline_parallel_degree", plan.pp);
    add(launch, "--parallelism.tensor_parallel_degree", plan.tp);
    add(launch, "--parallelism.data_parallel_replicate_degree", plan.dp / together);
    add(launch, "--parallelism.data_parallel_shard_degree", together);
    add(launch, "--parallelism.context_parallel_degree", 1);
    add(launch, "--training.num_tokens_per_microbatch_per_dp_rank", plan.micro_batch * plan.sequence);
    add(launch, "--training.max_context_length", plan.sequence);
    if (plan.pp == 1 && plan.micro_batches > 1)
        add(launch, "--training.num_tokens_per_train_step",
            std::to_string(std::int64_t{batch_of(plan)} * plan.sequence));
    if (plan.pp > 1) add_pipeline(plan, launch);
    if (plan.recompute != Recompute::none)
        launch.notes.push_back(
            std::string("activation checkpointing is a class of the configuration and no flag: choose ") +
            (plan.recompute == Recompute::full ? "FullAC" : "SelectiveAC"));
    if (together < plan.dp)
        launch.notes.push_back(
            "between sites weights and optimizer are replicated, where the plan counts on a "
            "sharded optimizer: more memory than planned");
    return launch;
}

} // namespace spider::launch
