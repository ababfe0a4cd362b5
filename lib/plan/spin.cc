// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/spin.h"

#include "model/trainer.h"
#include "plan/compare.h"

namespace spider::plan {

Result<Plan> spin(const Federation &federation, const JobSpec &spec, const Options &options) {
    const auto find = [&](const Problem &problem, Seconds budget) -> Result<Finds> {
        SpinSearch search(problem, budget, options.seed, !wants_even_layers(problem.spec()));
        search.run();
        Finds finds{.best = {}, .evaluations = search.evaluations()};
        for (std::size_t i = 0; i < families; ++i)
            finds.best[i] = search.best(static_cast<Family>(i));
        return finds;
    };
    return compare("spin", find, federation, spec, options);
}

} // namespace spider::plan
