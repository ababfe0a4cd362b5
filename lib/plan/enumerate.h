// SPDX-License-Identifier: GPL-3.0-or-later
// The enumeration behind `contiguous`: TP x D x orders of sites x stage counts, in a fixed order, cut by
// bounds.
#pragma once

#include "plan/evaluate.h"

#include <map>
#include <string>

namespace spider::plan {

struct Found {
    Candidate candidate;
    Priced priced;
};

// What is looked for: the fastest plan, or (to explain why none fits) the one with the fewest GPUs.
enum class Goal { fastest, fewest };

class Enumeration {
  public:
    // All borrowed. `pools`: usable sites with free GPUs. `home`: index into it, or -1.
    Enumeration(const Federation &federation, const JobSpec &spec, const std::vector<Pool> &pools, int home,
                Goal goal, std::int64_t max_evaluations);

    void run(); // what spec.sites and the home site ask for

    std::optional<Found> single;  // at the home site alone; without one, at the best site
    std::optional<Found> several; // over several sites: exactly spec.sites, if given

    std::map<std::string, Miss> misses; // by GPU type, the nearest; only with Goal::fewest
    std::int64_t evaluations = 0;

  private:
    using Order = std::vector<const Pool *>;
    void alone(std::size_t pool);
    void over(const std::vector<std::size_t> &pools); // all orders worth a try
    void over_any();                                  // every subset, or greedy growth where there are many
    void try_order(const Order &order, std::optional<Found> &best);
    void try_candidate(const Candidate &candidate, std::optional<Found> &best);
    void keep_nearest(const Candidate &candidate);
    [[nodiscard]] std::vector<int> tensor_sizes(const Order &order) const;
    [[nodiscard]] std::vector<int> data_sizes(int most) const;
    [[nodiscard]] std::vector<int> stage_counts(int least, int most) const;
    [[nodiscard]] bool linked(const Order &order) const;
    [[nodiscard]] Order chain(std::size_t start, const std::vector<std::size_t> &among) const;
    [[nodiscard]] Order first_order(const std::vector<std::size_t> &pools) const;
    [[nodiscard]] std::vector<std::size_t> indices() const;
    void permute(Order order, std::size_t fixed);

    const Federation &federation_;
    const JobSpec &spec_;
    const std::vector<Pool> &pools_;
    int home_;
    Goal goal_;
    std::int64_t max_evaluations_;
    Evaluator evaluator_;
};

} // namespace spider::plan
