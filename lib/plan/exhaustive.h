// SPDX-License-Identifier: GPL-3.0-or-later
// Every web of a small case, judged by the exact price: what other searches are measured against. Cells are
// single slots; webs that differ by the order of pipelines, or by sites that are alike, are looked at once.
#pragma once

#include "plan/compare.h"

namespace spider::plan {

struct Extent {
    bool every_layer_split = false; // else the layers as LayerDealer deals them
    std::int64_t most_webs = 5'000'000;
    std::int64_t most_steps = 0; // of exact prices, price_steps(); 0 = any number
};

// Error: there are more webs than that, begun ones counted, or pricing them takes more steps.
Result<Finds> search_everything(const Problem &problem, const Extent &extent = {});

Result<Plan> exhaustive(const Federation &federation, const JobSpec &spec, const Options &options);

} // namespace spider::plan
