// SPDX-License-Identifier: GPL-3.0-or-later
// GPUs out of Slurm's gres and tres texts: "gpu:h100:4(S:0-1),gpu:nvidia_h200_4g.71gb:2(IDX:0,3)". Pure, any
// thread.
#pragma once

#include "slurm/views.h"

#include <string_view>
#include <vector>

namespace spider::slurm {

// What a node has. Other resources, "N/A" and "(null)" count nothing; entries of one type add up.
std::vector<GpuCount> read_gpus(std::string_view gres);

// Fills `used` from gres_used and tres_used, whichever says more: tres_used knows GPUs only where the site
// accounts for them (AccountingStorageTRES). Use of a type that the node does not name falls on the others:
// never too many free.
void count_used(std::vector<GpuCount> &gpus, std::string_view gres_used, std::string_view tres_used);

} // namespace spider::slurm
