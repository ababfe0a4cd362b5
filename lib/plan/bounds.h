// SPDX-License-Identifier: GPL-3.0-or-later
// What no plan can beat, whatever the planner. Bounds only ever leave something out; they never assume.
#pragma once

#include "plan/problem.h"

#include <cstdint>
#include <map>
#include <vector>

namespace spider::plan {

// Bounds of shapes TP x P x D over the sites of a problem. Each is the time of a stage that must exist and
// its all-reduce:
//   work     all layers of D pipelines on the P x D fastest slots: tau >= L * D / (sum of their speeds)
//   stage    some stage has ceil(L/P) layers, and no slot is faster than the fastest
//   path     when no site holds a whole pipeline, every pipeline crosses links, none faster than the best; M
//   messages
//            cross each, and with a depth that is given a micro-batch waits for the one so many before it to
//            come back
//   ring     when no site holds D slots, the members of a stage are at several sites, whose ring has the best
//   links at best
class Bounds {
  public:
    explicit Bounds(const Problem &problem);
    [[nodiscard]] Seconds of_shape(int tp, int stages, int dp) const; // `never`: the sites have too few slots
    [[nodiscard]] Seconds period(int tp, int stages, int dp) const;   // of compute alone
    // The least of all shapes that the job allows.
    [[nodiscard]] Seconds of_job() const;

  private:
    struct Slots {
        std::vector<double>
            speeds; // slots times micro-batches per second of the whole model, summed over the fastest sites
        std::vector<int> counts;  // slots, summed likewise
        std::vector<double> each; // micro-batches per second of one slot of that site
        int widest = 0;           // most slots at one site
        std::vector<Seconds>
            least_seconds; // of a run of so many layers, wherever it begins and on whatever GPU
        std::vector<Bytes> least_gradient;
    };
    [[nodiscard]] static double speed(const Slots &slots, std::int64_t needed);
    [[nodiscard]] Seconds reduce(const Slots &slots, int dp, int layers) const;
    [[nodiscard]] Seconds path(int tp, const Slots &slots, int stages, int dp) const;

    const Problem &problem_;
    std::map<int, Slots> slots_;         // by TP
    std::vector<double> best_bandwidth_; // bytes/s: greatest link out of each site, best site first
    Seconds least_latency_ = never;
};

} // namespace spider::plan
