// SPDX-License-Identifier: GPL-3.0-or-later
// Data-sheet values of the GPU types that Slurm sites name in their gres ("gpu:h100:8").
#pragma once

#include "model/site.h"

#include <string_view>

namespace spider::model {

// Longest prefix match, so that "h100_80gb_hbm3" is an h100; nothing for an unknown type.
// The GpuType keeps the name that was asked for, in lower case.
std::optional<GpuType> gpu_type_named(std::string_view name);

std::string known_gpu_types(); // for messages: "gb300, gb200, ..."

} // namespace spider::model
