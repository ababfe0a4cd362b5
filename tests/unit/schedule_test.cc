// SPDX-License-Identifier: GPL-3.0-or-later
// Schedules as data: orders and times against hand-worked cases, Megatron-LM's published numbers, and
// stage_ends().
#include "pipeline_simulation.h"
#include "plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace spider::plan {
namespace {

// F and B, micro-batch, and a letter for the chunk: "F0a" is micro-batch 0 through chunk 0.
std::string text(const std::vector<Operation> &order) {
    std::string all;
    for (const auto &operation : order)
        all += (all.empty() ? "" : " ") +
               std::string(operation.kind == Operation::Kind::forward ? "F" : "B") +
               std::to_string(operation.micro_batch) + static_cast<char>('a' + operation.chunk);
    return all;
}

std::vector<std::vector<StageTime>> one_chunk(const Pipeline &pipeline) {
    std::vector<std::vector<StageTime>> times;
    for (const auto &stage : pipeline.stages)
        times.push_back({stage});
    return times;
}

TEST(Schedule, OneForwardOneBackwardByHand) {
    const auto schedule = one_f_one_b(std::vector{3, 1}, 4);
    EXPECT_EQ(text(schedule.devices[0]), "F0a F1a F2a B0a F3a B1a B2a B3a");
    EXPECT_EQ(text(schedule.devices[1]), "F0a B0a F1a B1a F2a B2a F3a B3a");
    EXPECT_EQ(text(gpipe(2, 2).devices[1]), "F0a F1a B0a B1a");
    EXPECT_EQ(one_f_one_b(std::vector{9, 9}, 3), gpipe(2, 3));
}

// The loops of forward_backward_pipelining_with_interleaving() by hand: two devices, two chunks.
TEST(Schedule, InterleavedIsMegatronsOrder) {
    const auto schedule = *interleaved(2, 2, 4);
    EXPECT_EQ(text(schedule.devices[0]), "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
    EXPECT_EQ(text(schedule.devices[1]), "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
    EXPECT_EQ(text((*interleaved(2, 2, 3, 3)).devices[1]), "F0a F1a F2a F0b B0b F1b B1b F2b B2b B0a B1a B2a");
}

// github.com/NVIDIA/Megatron-LM/issues/675: forwards before forward and backward take turns.
TEST(Schedule, InterleavedWarmsUpAsLongAsMegatronDoes) {
    const std::map<std::pair<int, int>, std::vector<int>> warm_ups{
        {{2, 2}, {4, 2}},
        {{2, 4}, {8, 6}},
        {{4, 2}, {10, 8, 6, 4}},
        {{4, 4}, {18, 16, 14, 12}},
        {{8, 2}, {22, 20, 18, 16, 14, 12, 10, 8}},
        {{8, 4}, {38, 36, 34, 32, 30, 28, 26, 24}},
    };
    for (const auto &[size, counts] : warm_ups) {
        const auto schedule = *interleaved(size.first, size.second, 3 * size.first);
        for (std::size_t d = 0; d < counts.size(); ++d) {
            const auto &order = schedule.devices[d];
            const auto backward = std::find_if(order.begin(), order.end(), [](const Operation &operation) {
                return operation.kind == Operation::Kind::backward;
            });
            // One more forward: the first of those that take turns.
            EXPECT_EQ(backward - order.begin(), counts[d] + 1) << size.first << " devices, device " << d;
        }
    }
}

TEST(Schedule, InterleavedDoesEveryForwardOnceAndBeforeItsBackward) {
    for (const int devices : {1, 2, 4, 8})
        for (const int chunks : {1, 2, 4})
            for (const int group : {devices, 2 * devices}) {
                const int batches = 4 * devices;
                const auto schedule = *interleaved(devices, chunks, batches, group);
                for (const auto &order : schedule.devices) {
                    std::map<std::pair<int, int>, int> done; // chunk and micro-batch -> operations
                    for (const auto &[kind, chunk, batch] : order)
                        EXPECT_EQ(done[std::pair(chunk, batch)]++, kind == Operation::Kind::forward ? 0 : 1);
                    EXPECT_EQ(static_cast<int>(done.size()), chunks * batches);
                    EXPECT_EQ(static_cast<int>(order.size()), 2 * chunks * batches);
                }
            }
}

// Narayanan et al., SC'21, section 2.2: interleaving divides the bubble (P - 1) (f + b) by the chunks.
TEST(ScheduleRun, InterleavedHasThePublishedBubble) {
    constexpr double forward = 1, backward = 2;
    for (const int devices : {2, 4, 8})
        for (const int chunks : {1, 2, 4})
            for (const int rounds : {1, 2, 5}) {
                const int batches = rounds * devices;
                const std::vector times(static_cast<std::size_t>(devices),
                                        std::vector(static_cast<std::size_t>(chunks),
                                                    StageTime{forward / chunks, backward / chunks}));
                const std::vector<Boundary> none(static_cast<std::size_t>(devices));
                const auto ends = *run(*interleaved(devices, chunks, batches), times, none, Sends::async);
                EXPECT_NEAR(*std::max_element(ends.begin(), ends.end()),
                            batches * (forward + backward) + (devices - 1) * (forward + backward) / chunks,
                            1e-9)
                    << devices << " devices, " << chunks << " chunks, " << batches << " micro-batches";
            }
}

// Forward 1 s, backward 2 s; 1 s between the devices, 3 s back to the first.
TEST(ScheduleRun, AHandWorkedInterleavedCaseWithLinks) {
    const std::vector times(2, std::vector(2, StageTime{1, 2}));
    const std::vector<Boundary> links{{1, 0, 0.5, 0.5}, {3, 0, 2, 1}};
    const auto schedule = *interleaved(2, 2, 2);
    EXPECT_EQ(*run(schedule, times, links, Sends::async), (std::vector<double>{25, 22}));
    EXPECT_EQ(*run(schedule, times, links, Sends::blocking), (std::vector<double>{29, 27}));
}

TEST(ScheduleRun, GivesTheStageEndsOfEveryOrderThatHasThem) {
    std::mt19937 chance(21);
    for (int round = 0; round < 500; ++round) {
        const auto pipeline = random_pipeline(chance);
        const auto stages = pipeline.stages.size();
        const int devices = static_cast<int>(stages),
                  batches = devices * (1 + static_cast<int>(chance() % 5));
        std::vector<int> by_two(stages); // interleaved with one chunk
        for (int d = 0; d < devices; ++d)
            by_two[static_cast<std::size_t>(d)] = 2 * (devices - d) - 1;
        const auto depths = random_depths(chance, stages);
        const std::vector<std::pair<Schedule, std::vector<int>>> cases{
            {one_f_one_b(depths, batches), depths},
            {gpipe(devices, batches), std::vector(stages, batches)},
            {*interleaved(devices, 1, batches), by_two},
        };
        for (const auto sends : {Sends::async, Sends::blocking})
            for (const auto &[schedule, deep] : cases) {
                const auto ends = *run(schedule, one_chunk(pipeline), pipeline.boundaries, sends);
                const auto exact = stage_ends(
                    sends == Sends::blocking ? with_blocking_sends(pipeline) : pipeline, deep, batches);
                for (std::size_t i = 0; i < stages; ++i)
                    EXPECT_NEAR(ends[i], exact[i], 1e-9) << "round " << round;
            }
    }
}

std::string trouble(const Schedule &schedule) {
    const std::vector times(schedule.devices.size(), std::vector(1, StageTime{1, 2}));
    const std::vector<Boundary> none(schedule.devices.size());
    const auto ends = run(schedule, times, none, Sends::async);
    return ends ? "none" : ends.error().what;
}

TEST(ScheduleRun, AnOrderThatCannotRunIsAnErrorThatNamesTheDevice) {
    EXPECT_EQ(trouble(one_f_one_b(std::vector{1, 2}, 4)),
              "deadlock at device 0: backward of micro-batch 0, chunk 0 waits for ever");
    auto early = one_f_one_b(std::vector{2, 1}, 4);
    std::swap(early.devices[1][0], early.devices[1][1]);
    EXPECT_EQ(trouble(early), "deadlock at device 0: backward of micro-batch 0, chunk 0 waits for ever");
}

TEST(ScheduleRun, AMissingADoubleAndAStrangeOperationAreErrors) {
    auto broken = one_f_one_b(std::vector{2, 1}, 3);
    broken.devices[1].pop_back();
    EXPECT_EQ(trouble(broken), "device 1: backward of micro-batch 2, chunk 0 is missing");
    broken.devices[1].push_back(broken.devices[1][0]);
    EXPECT_EQ(trouble(broken), "device 1: forward of micro-batch 0, chunk 0 is there twice");
    broken.devices[1].back().chunk = 1;
    EXPECT_EQ(trouble(broken),
              "device 1: forward of micro-batch 0, chunk 1 is not of this schedule, which has 3 "
              "micro-batches and 1 chunks on each device");
    const auto two = *interleaved(2, 2, 2);
    EXPECT_EQ(trouble(two), "device 0: times of 1 chunks; the schedule has 2");
    EXPECT_EQ(
        run(two, std::vector(2, std::vector(2, StageTime{1, 2})), std::vector<Boundary>(1), Sends::async)
            .error()
            .what,
        "schedule of 2 devices: times of 2 and 1 boundaries; it needs 2 and 2");
    EXPECT_EQ(trouble({}), "none");
}

TEST(Schedule, InterleavedRefusesWhatMegatronCannotDo) {
    EXPECT_EQ(interleaved(4, 2, 6).error().what,
              "interleaved schedule: 6 micro-batches are no multiple of the group of 4");
    EXPECT_EQ(
        interleaved(4, 2, 8, 2).error().what,
        "interleaved schedule: groups of 2 micro-batches on 4 devices; a group must have at least as many");
    EXPECT_EQ(interleaved(0, 2, 8).error().what,
              "interleaved schedule: 2 chunks on each of 0 devices; both must be at least 1");
}

} // namespace
} // namespace spider::plan
