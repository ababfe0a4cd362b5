// SPDX-License-Identifier: GPL-3.0-or-later
// 1F1B event by event, and random pipelines, for the tests of the formulas. Uses lib/plan's structs, nothing
// of its arithmetic.
#pragma once

#include "model/job_spec.h"
#include "plan/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace spider::plan {

constexpr int endless = 1 << 30;

// Each stage does its operations in order, each link its messages. A sender that blocks is free when its
// message has arrived.
class Simulation {
  public:
    Simulation(const Pipeline &pipeline, std::vector<int> depths, int micro_batches,
               Sends sends = Sends::async)
        : pipeline_(pipeline), depths_(std::move(depths)), batches_(micro_batches), sends_(sends) {
        const auto stages = pipeline.stages.size();
        for (auto *all : {&arrived_, &returned_})
            all->assign(stages, std::vector<double>(static_cast<std::size_t>(batches_), -1));
        arrived_.front().assign(static_cast<std::size_t>(batches_), 0);
        forwards_.assign(stages, 0), backwards_.assign(stages, 0);
        stage_free_.assign(stages, 0), link_free_.assign(stages, 0), back_free_.assign(stages, 0);
    }

    // When each stage ends.
    std::vector<double> ends() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < pipeline_.stages.size(); ++i)
                while (step(i))
                    moved = true;
        }
        for (const int done : backwards_)
            EXPECT_EQ(done, batches_) << "deadlock";
        return stage_free_;
    }

  private:
    bool step(std::size_t i) {
        const bool forward = forwards_[i] < batches_ && forwards_[i] - backwards_[i] < depths_[i];
        return forward ? step_forward(i) : step_backward(i);
    }
    bool step_forward(std::size_t i) {
        const auto m = static_cast<std::size_t>(forwards_[i]);
        if (arrived_[i][m] < 0) return false;
        stage_free_[i] = std::max(stage_free_[i], arrived_[i][m]) + pipeline_.stages[i].forward;
        ++forwards_[i];
        if (i + 1 == pipeline_.stages.size()) {
            returned_[i][m] = stage_free_[i];
        } else {
            const auto &link = pipeline_.boundaries[i];
            arrived_[i + 1][m] = send(stage_free_[i], link_free_[i], link.occupancy, link.latency);
        }
        return true;
    }
    bool step_backward(std::size_t i) {
        const auto m = static_cast<std::size_t>(backwards_[i]);
        if (backwards_[i] == batches_ || returned_[i][m] < 0) return false;
        stage_free_[i] = std::max(stage_free_[i], returned_[i][m]) + pipeline_.stages[i].backward;
        ++backwards_[i];
        if (i > 0) {
            const auto &link = pipeline_.boundaries[i - 1];
            returned_[i - 1][m] =
                send(stage_free_[i], back_free_[i - 1], link.back_occupancy, link.back_latency);
        }
        return true;
    }
    double send(double &sender_free, double &link_free, double occupancy, double latency) const {
        link_free = std::max(link_free, sender_free) + occupancy;
        const double arrival = link_free + latency;
        if (sends_ == Sends::blocking) sender_free = arrival;
        return arrival;
    }

    const Pipeline &pipeline_;
    std::vector<int> depths_;
    int batches_;
    Sends sends_;
    std::vector<std::vector<double>> arrived_, returned_; // at stage i, micro-batch m
    std::vector<int> forwards_, backwards_;
    std::vector<double> stage_free_, link_free_, back_free_;
};

inline double simulated(const Pipeline &pipeline, const std::vector<int> &depths, int micro_batches) {
    const auto ends = Simulation(pipeline, depths, micro_batches).ends();
    return *std::max_element(ends.begin(), ends.end());
}

inline double slope(const Pipeline &pipeline, const std::vector<int> &depths, int few = 500,
                    int many = 1500) {
    return (simulated(pipeline, depths, many) - simulated(pipeline, depths, few)) / (many - few);
}

inline double uniform(std::mt19937 &chance, double low, double high) {
    return std::uniform_real_distribution<>(low, high)(chance);
}

inline Pipeline random_pipeline(std::mt19937 &chance, unsigned most_stages = 8) {
    const auto real = [&](double low, double high) { return uniform(chance, low, high); };
    Pipeline pipeline;
    for (auto stages = 2 + chance() % (most_stages - 1); stages > 0; --stages) {
        pipeline.stages.push_back({real(0.5, 1.5), real(1, 3)});
        if (stages == 1) break;
        const bool wide = chance() % 2 == 0; // a link inside a site, or between two
        pipeline.boundaries.push_back(wide ? Boundary{0.001, 0.01, 0.001, 0.01}
                                           : Boundary{real(0, 10), real(0, 4), real(0, 10), real(0, 4)});
    }
    return pipeline;
}

inline std::vector<int> random_depths(std::mt19937 &chance, std::size_t stages) {
    std::vector<int> depths(stages);
    int depth = 1 + static_cast<int>(chance() % 2);
    for (auto i = stages; i-- > 0; depth += static_cast<int>(chance() % 4))
        depths[i] = depth;
    return depths;
}

} // namespace spider::plan
