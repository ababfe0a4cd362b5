// SPDX-License-Identifier: GPL-3.0-or-later
// Prices a candidate: which pool carries how many stages -> layers, depths, memory, seconds, and a Plan of
// it. Every search uses this one evaluator, so that plans of different searches compare.
#pragma once

#include "federation/federation.h"
#include "model/plan.h"
#include "plan/capacity.h"
#include "plan/memory.h"
#include "plan/pipeline.h"

namespace spider::plan {

struct Run {
    const Pool *pool = nullptr; // borrowed
    int stages = 1;             // consecutive
};

// A contiguous pipeline: the runs in stage order, D members of each stage in the stage's site.
struct Candidate {
    int tp = 1, dp = 1;
    std::vector<Run> runs;
    [[nodiscard]] int pp() const;
    [[nodiscard]] int gpus() const { return tp * dp * pp(); }
};

struct Priced {
    std::vector<int> layers, depths; // per stage
    std::vector<Bytes> memory;       // per GPU of each stage
    Pipeline pipeline;
    Iteration iteration; // without tokens and bound
};

// What the stages of one GPU type would need at the least, where they have less.
struct Miss {
    std::string gpu;
    Bytes needed = 0, has = 0;
    int tp = 1, pp = 1, dp = 1;
};

class Evaluator {
  public:
    // Both are borrowed for the evaluator's life.
    Evaluator(const Federation &federation, const JobSpec &spec) : federation_(federation), spec_(spec) {}

    // Nothing when the layers do not fit the memory, or a link that they would cross is not known.
    [[nodiscard]] std::optional<Priced> price(const Candidate &candidate) const;

    // No split of the layers over these stages is faster.
    [[nodiscard]] Seconds floor(const Candidate &candidate) const;

    // Where a candidate that does not fit comes nearest: layers split by memory, depth 1.
    [[nodiscard]] std::vector<Miss> misses(const Candidate &candidate) const;

    [[nodiscard]] bool linked(const Pool &a, const Pool &b) const; // both ways
    [[nodiscard]] Plan plan(const Candidate &candidate, const Priced &priced) const;
    [[nodiscard]] int micro_batches(const Candidate &candidate) const;

  private:
    [[nodiscard]] std::optional<Boundary> boundary(const Pool &from, const Pool &to, int dp) const;
    [[nodiscard]] std::optional<Pipeline> pipeline(const Candidate &candidate,
                                                   const std::vector<int> &layers) const;
    [[nodiscard]] Seconds gradients(const Candidate &candidate, const Priced &priced) const;
    [[nodiscard]] std::optional<Seconds> tied_gradients(const Candidate &candidate) const;
    [[nodiscard]] Bottleneck bottleneck(const Candidate &candidate, const Priced &priced,
                                        const Period &period) const;

    const Federation &federation_;
    const JobSpec &spec_;
};

} // namespace spider::plan
