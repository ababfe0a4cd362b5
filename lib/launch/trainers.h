// SPDX-License-Identifier: GPL-3.0-or-later
// The trainers of render(), one file each.
#pragma once

#include "launch/render.h"

namespace spider::launch {

Result<Launch> megatron(const Plan &plan);
Result<Launch> torchtitan(const Plan &plan);
Result<Launch> deepspeed(const Plan &plan);
Result<Launch> nanotron(const Plan &plan);

void add(Launch &launch, std::string option, std::string value);
void add(Launch &launch, std::string option, int value);
void add_sizes(Launch &launch, const Plan &plan); // as Megatron-LM and its descendants name them
int layers_in(const Stage &stage);
int batch_of(const Plan &plan); // sequences of an iteration

bool has_consecutive_ranks(const Plan &plan); // on each node

// The depths are those of 1F1B, P - i, which these trainers keep.
bool has_usual_depths(const Plan &plan);
Error depths_not_kept(const Plan &plan, std::string_view trainer);

} // namespace spider::launch
