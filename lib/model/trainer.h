// SPDX-License-Identifier: GPL-3.0-or-later
// What bears on a plan of each trainer, one row each; what the user says himself wins. Plain values.
#pragma once

#include "model/job_spec.h"

#include <algorithm>
#include <array>

namespace spider::model {

struct TrainerTraits {
    Trainer trainer;
    int depth; // of the schedule that it runs
    Sends sends;
    bool rigid;       // it keeps these depths whether or not they fit
    bool even_layers; // no flag of it says how many layers a stage holds
};

constexpr std::array trainer_traits{
    TrainerTraits{Trainer::plain, depth_fitted, Sends::async, false, false},
    TrainerTraits{Trainer::megatron, depth_stages, Sends::blocking, true, false},
    TrainerTraits{Trainer::torchtitan, depth_fitted, Sends::async, false, false},
    TrainerTraits{Trainer::deepspeed, depth_stages, Sends::blocking, true, true},
    TrainerTraits{Trainer::nanotron, depth_stages, Sends::blocking, true, true},
    TrainerTraits{Trainer::torchrun, depth_fitted, Sends::async, false, false},
};

constexpr const TrainerTraits &traits_of(Trainer trainer) {
    for (const auto &row : trainer_traits)
        if (row.trainer == trainer) return row;
    return trainer_traits.front();
}

inline int depth_of(const JobSpec &spec) {
    return spec.depth != depth_of_trainer ? spec.depth : traits_of(spec.trainer).depth;
}
inline Sends sends_of(const JobSpec &spec) { return spec.sends.value_or(traits_of(spec.trainer).sends); }
inline bool wants_even_layers(const JobSpec &spec) {
    return spec.even_layers.value_or(traits_of(spec.trainer).even_layers);
}
// What the trainer keeps in flight at this stage at the least.
inline int least_depth(const JobSpec &spec, int stage, int stages, int micro_batches) {
    const bool fixed = traits_of(spec.trainer).rigid && depth_of(spec) == depth_stages;
    return fixed ? std::min(stages - stage, micro_batches) : 1;
}
inline Launcher launcher_of(const JobSpec &spec) {
    return spec.trainer == Trainer::torchrun ? Launcher::torchrun : spec.launcher;
}
// With torchrun tasks are nodes: --ntasks and --ntasks-per-node limit no GPUs.
inline Limits limits_of(const JobSpec &spec) {
    auto limits = spec.limits;
    if (launcher_of(spec) == Launcher::srun) return limits;
    if (limits.max_tasks > 0 && (limits.max_nodes == 0 || limits.max_tasks < limits.max_nodes))
        limits.max_nodes = limits.max_tasks;
    limits.max_tasks = limits.max_tasks_per_node = 0;
    return limits;
}

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
