// SPDX-License-Identifier: GPL-3.0-or-later
// DT-FM's genetic search: which slots form which stage, in which order the stages follow, who is matched to
// whom. Its own cost: DP + 2 PP, with
//   DP = max over stages, over members i, of sum over members j of 2 (a_ij + G / (b_ij D))
//   PP = the shortest open path through the stages, where two stages are as far apart as the longest link of
//        their bottleneck matching, a_ij + A / b_ij; A: the activations of a pipeline's whole batch.
// a: latency, b: bytes/s, both the worse of the two directions. No compute, no micro-batches, no memory. The
// published matching can return pairs that it has ruled out; this one is correct.
#pragma once

#include "plan/problem.h"
#include "plan/web.h"

#include <cstdint>
#include <random>
#include <vector>

namespace spider::plan {

class GeneticSearch {
  public:
    static constexpr int population = 100, candidates = 5000; // as published

    GeneticSearch(const Problem &problem, const Shape &shape, std::uint64_t seed);

    // Member d of stage s at [s * D + d], stages in order, pipelines matched. Empty: too few slots.
    std::vector<int> run();
    [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }

    // Slots in groups of D, stage by stage in any order: what run() lessens.
    Seconds cost(const std::vector<int> &slots);

    // Partners in `b` of the members of `a`, and the longest link among them: least of all matchings.
    struct Matching {
        Seconds longest = 0;
        std::vector<std::size_t> partner;
    };
    Matching match(const int *a, const int *b) const;

  private:
    struct Individual {
        std::vector<int> slots; // P * D of them, then those that are left
        Seconds cost = 0;
    };
    [[nodiscard]] Seconds reduce(const int *group) const;
    static std::vector<int> order_of(const std::vector<std::vector<Seconds>> &far, Seconds &length);
    [[nodiscard]] std::vector<std::vector<Seconds>> distances(const std::vector<int> &slots) const;
    Individual rated(std::vector<int> slots);
    std::vector<int> crossed(const Individual &a, const Individual &b);
    void improve(std::vector<int> &slots);
    std::size_t below(std::size_t limit) {
        return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
    }

    const Problem &problem_;
    std::size_t stages_, members_;
    std::vector<int> all_;
    std::vector<Seconds> gradient_far_, message_far_; // site x site
    std::mt19937_64 random_;
    std::int64_t evaluations_ = 0;
};

} // namespace spider::plan
