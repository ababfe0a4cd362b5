// SPDX-License-Identifier: GPL-3.0-or-later
// The text of a 1F1B schedule. Here, since both the broker and the plugin, which sees util alone, write it:
// for many stages and micro-batches it has megabytes, too many for a job's environment.
#pragma once

#include <span>
#include <string>

namespace spider::util {

// One line per stage, in order: "0F0,0F1,0B0,…" (stage, F or B, micro-batch), as torch.distributed.pipelining
// reads a compute-only schedule. Stage i does depths[i] forwards, then a backward and a forward in turn; each
// depth at least 1, and those above `micro_batches` count as it.
std::string schedule_csv(std::span<const int> depths, int micro_batches);

} // namespace spider::util
