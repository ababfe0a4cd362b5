// SPDX-License-Identifier: GPL-3.0-or-later
// What bears on a plan of each trainer, one row each; what the user says himself wins. Plain values.
#pragma once

#include "model/job_spec.h"

#include <array>

namespace spider::model {

struct TrainerTraits {
    Trainer trainer;
    int depth; // of the schedule that it runs
    Sends sends;
    bool even_layers; // no flag of it says how many layers a stage holds
};

constexpr std::array trainer_traits{
    TrainerTraits{Trainer::plain, depth_fitted, Sends::async, false},
    TrainerTraits{Trainer::megatron, depth_stages, Sends::blocking, false},
    TrainerTraits{Trainer::torchtitan, depth_fitted, Sends::async, false},
    TrainerTraits{Trainer::deepspeed, depth_stages, Sends::blocking, true},
    TrainerTraits{Trainer::nanotron, depth_stages, Sends::blocking, true},
    TrainerTraits{Trainer::torchrun, depth_fitted, Sends::async, false},
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
inline Launcher launcher_of(const JobSpec &spec) {
    return spec.trainer == Trainer::torchrun ? Launcher::torchrun : spec.launcher;
}

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
