// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/timeline.h"

#include <algorithm>
#include <deque>

namespace spider::plan {

namespace {

struct Player {
    StageTime time;
    Boundary link; // to the next stage
    int depth = 1;
    Seconds free = 0, link_free = 0, back_free = 0; // back_free: of the link from the next stage
    std::deque<Seconds> gradients;                  // that have been sent here, by arrival
};

} // namespace

std::vector<Block> timeline(const Pipeline &pipeline, std::span<const int> depths, int micro_batches,
                            int head, int tail) {
    std::vector<Player> play(pipeline.stages.size());
    for (std::size_t i = 0; i < play.size(); ++i) {
        play[i].time = pipeline.stages[i];
        play[i].depth = std::min(depths[i], micro_batches);
        if (i < pipeline.boundaries.size()) play[i].link = pipeline.boundaries[i];
    }
    std::vector<Block> blocks;
    const auto run = [&](std::size_t i, int n, bool backward, Seconds ready) {
        auto &stage = play[i];
        const auto begin = std::max(stage.free, ready);
        stage.free = begin + (backward ? stage.time.backward : stage.time.forward);
        if (n < head || n >= micro_batches - tail)
            blocks.push_back({static_cast<int>(i), n, backward, begin, stage.free});
    };
    for (int round = 0; round < micro_batches + play.front().depth - 1; ++round) {
        Seconds arrival = 0;
        for (std::size_t i = 0; i < play.size() && round < micro_batches; ++i) {
            auto &stage = play[i];
            run(i, round, false, arrival);
            stage.link_free = std::max(stage.link_free, stage.free) + stage.link.occupancy;
            arrival = stage.link_free + stage.link.latency;
        }
        for (std::size_t i = play.size(); i-- > 0;) {
            const int n = round - play[i].depth + 1;
            if (n < 0 || n >= micro_batches) continue;
            auto &gradients = play[i].gradients;
            const auto ready = gradients.empty() ? 0 : gradients.front();
            if (!gradients.empty()) gradients.pop_front();
            run(i, n, true, ready);
            if (i == 0) continue;
            auto &before = play[i - 1];
            before.back_free = std::max(before.back_free, play[i].free) + before.link.back_occupancy;
            before.gradients.push_back(before.back_free + before.link.back_latency);
        }
    }
    return blocks;
}

} // namespace spider::plan
