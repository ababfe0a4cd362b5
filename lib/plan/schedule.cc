// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/schedule.h"

#include <algorithm>
#include <optional>
#include <string>

namespace spider::plan {

namespace {

using Kind = Operation::Kind;

// `group` micro-batches through one chunk, the same through the next; backwards come from the last chunk on.
std::vector<Operation> by_groups(Kind kind, int chunks, int micro_batches, int group) {
    std::vector<Operation> all;
    for (int first = 0; first < micro_batches; first += group)
        for (int c = 0; c < chunks; ++c)
            for (int m = first; m < std::min(first + group, micro_batches); ++m)
                all.push_back({kind, kind == Kind::forward ? c : chunks - 1 - c, m});
    return all;
}

// `depth` forwards, then a backward and a forward in turn.
std::vector<Operation> in_turn(int chunks, int micro_batches, int group, int depth) {
    const auto forwards = by_groups(Kind::forward, chunks, micro_batches, group);
    auto ahead = forwards.begin() + std::min(depth, static_cast<int>(forwards.size()));
    std::vector<Operation> all(forwards.begin(), ahead);
    for (const auto &backward : by_groups(Kind::backward, chunks, micro_batches, group)) {
        all.push_back(backward);
        if (ahead != forwards.end()) all.push_back(*ahead++);
    }
    return all;
}

std::string words(const Operation &operation) {
    return std::string(operation.kind == Kind::forward ? "forward" : "backward") + " of micro-batch " +
           std::to_string(operation.micro_batch) + ", chunk " + std::to_string(operation.chunk);
}

} // namespace

Schedule one_f_one_b(std::span<const int> depths, int micro_batches) {
    Schedule schedule{.micro_batches = micro_batches};
    for (const int depth : depths)
        schedule.devices.push_back(in_turn(1, micro_batches, std::max(1, micro_batches), depth));
    return schedule;
}

Schedule gpipe(int devices, int micro_batches) {
    return one_f_one_b(std::vector(static_cast<std::size_t>(devices), micro_batches), micro_batches);
}

Result<Schedule> interleaved(int devices, int chunks, int micro_batches, int group) {
    if (group == 0) group = devices;
    if (devices < 1 || chunks < 1)
        return Error{Errc::invalid, "interleaved schedule: " + std::to_string(chunks) +
                                        " chunks on each of " + std::to_string(devices) +
                                        " devices; both must be at least 1"};
    if (group < devices)
        return Error{Errc::invalid, "interleaved schedule: groups of " + std::to_string(group) +
                                        " micro-batches on " + std::to_string(devices) +
                                        " devices; a group must have at least as many"};
    if (micro_batches < 1 || micro_batches % group != 0)
        return Error{Errc::invalid, "interleaved schedule: " + std::to_string(micro_batches) +
                                        " micro-batches are no multiple of the group of " +
                                        std::to_string(group)};
    Schedule schedule{.chunks = chunks, .micro_batches = micro_batches};
    for (int d = 0; d < devices; ++d) {
        const int warm_up = 2 * (devices - d - 1) + (chunks - 1) * group;
        schedule.devices.push_back(in_turn(chunks, micro_batches, group, warm_up + 1));
    }
    return schedule;
}

namespace {

constexpr Seconds not_yet = -1;

struct Device {
    std::size_t next = 0; // operation
    Seconds free = 0;
    Seconds link_free = 0, back_free = 0; // the links that it sends on: activations, gradients
};

class Run {
  public:
    Run(const Schedule &schedule, std::span<const std::vector<StageTime>> times,
        std::span<const Boundary> boundaries, Sends sends)
        : schedule_(schedule), times_(times), boundaries_(boundaries), sends_(sends),
          devices_(schedule.devices.size()), batches_(static_cast<std::size_t>(schedule.micro_batches)),
          stages_(devices_.size() * static_cast<std::size_t>(schedule.chunks)) {
        arrived_.assign(stages_ * batches_, not_yet), returned_ = arrived_;
        std::fill_n(arrived_.begin(), batches_, 0);
    }

    Result<std::vector<Seconds>> ends() {
        for (std::size_t d = 0; d < devices_.size(); ++d)
            todo_.push_back(d);
        while (!todo_.empty()) {
            const auto d = todo_.back();
            todo_.pop_back();
            while (devices_[d].next < schedule_.devices[d].size() && step(d))
                ++devices_[d].next;
        }
        std::vector<Seconds> ends;
        for (std::size_t d = 0; d < devices_.size(); ++d) {
            if (devices_[d].next < schedule_.devices[d].size())
                return Error{Errc::invalid, "deadlock at device " + std::to_string(d) + ": " +
                                                words(schedule_.devices[d][devices_[d].next]) +
                                                " waits for ever"};
            ends.push_back(devices_[d].free);
        }
        return ends;
    }

  private:
    // The next operation of a device, if its input is there.
    bool step(std::size_t d) {
        const auto &operation = schedule_.devices[d][devices_[d].next];
        const auto chunk = static_cast<std::size_t>(operation.chunk);
        const auto stage = chunk * devices_.size() + d;
        const auto batch = static_cast<std::size_t>(operation.micro_batch);
        const bool forward = operation.kind == Kind::forward;
        const auto input = (forward ? arrived_ : returned_)[stage * batches_ + batch];
        if (input == not_yet) return false;
        auto &free = devices_[d].free;
        free = std::max(free, input) + (forward ? times_[d][chunk].forward : times_[d][chunk].backward);
        if (forward)
            send_on(d, stage, batch);
        else if (stage > 0)
            send_back(d, stage, batch);
        return true;
    }
    void send_on(std::size_t d, std::size_t stage, std::size_t batch) {
        if (stage + 1 == stages_) {
            returned_[stage * batches_ + batch] = devices_[d].free;
            return;
        }
        const auto &link = boundaries_[d];
        arrived_[(stage + 1) * batches_ + batch] =
            arrival(devices_[d], devices_[d].link_free, link.occupancy, link.latency);
        todo_.push_back((stage + 1) % devices_.size());
    }
    void send_back(std::size_t d, std::size_t stage, std::size_t batch) {
        const auto to = (stage - 1) % devices_.size();
        const auto &link = boundaries_[to];
        returned_[(stage - 1) * batches_ + batch] =
            arrival(devices_[d], devices_[d].back_free, link.back_occupancy, link.back_latency);
        todo_.push_back(to);
    }
    Seconds arrival(Device &from, Seconds &link_free, Seconds occupancy, Seconds latency) const {
        link_free = std::max(link_free, from.free) + occupancy;
        const auto there = link_free + latency;
        if (sends_ == Sends::blocking) from.free = there;
        return there;
    }

    const Schedule &schedule_;
    std::span<const std::vector<StageTime>> times_;
    std::span<const Boundary> boundaries_;
    Sends sends_;
    std::vector<Device> devices_;
    std::size_t batches_, stages_;
    std::vector<Seconds> arrived_, returned_; // inputs of a virtual stage, at stage * batches_ + micro-batch
    std::vector<std::size_t> todo_;           // devices that may go on
};

// Every operation of every chunk and micro-batch once.
std::optional<Error> trouble_at(const Schedule &schedule, std::size_t device) {
    const auto at = "device " + std::to_string(device) + ": ";
    const auto batches = static_cast<std::size_t>(schedule.micro_batches);
    const auto half = static_cast<std::size_t>(schedule.chunks) * batches;
    std::vector<bool> seen(2 * half, false);
    for (const auto &operation : schedule.devices[device]) {
        if (operation.chunk < 0 || operation.chunk >= schedule.chunks || operation.micro_batch < 0 ||
            operation.micro_batch >= schedule.micro_batches)
            return Error{Errc::invalid, at + words(operation) + " is not of this schedule, which has " +
                                            std::to_string(schedule.micro_batches) + " micro-batches and " +
                                            std::to_string(schedule.chunks) + " chunks on each device"};
        const auto place = (operation.kind == Kind::forward ? 0 : half) +
                           static_cast<std::size_t>(operation.chunk) * batches +
                           static_cast<std::size_t>(operation.micro_batch);
        if (seen[place]) return Error{Errc::invalid, at + words(operation) + " is there twice"};
        seen[place] = true;
    }
    const auto hole = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
    if (hole == seen.size()) return std::nullopt;
    const Operation missing{hole < half ? Kind::forward : Kind::backward,
                            static_cast<int>(hole % half / batches), static_cast<int>(hole % batches)};
    return Error{Errc::invalid, at + words(missing) + " is missing"};
}

} // namespace

Result<std::vector<Seconds>> run(const Schedule &schedule, std::span<const std::vector<StageTime>> times,
                                 std::span<const Boundary> boundaries, Sends sends) {
    const auto devices = schedule.devices.size();
    const auto links = schedule.chunks > 1 || devices == 0 ? devices : devices - 1;
    if (schedule.chunks < 1 || schedule.micro_batches < 0)
        return Error{Errc::invalid, "schedule of " + std::to_string(schedule.chunks) + " chunks and " +
                                        std::to_string(schedule.micro_batches) + " micro-batches"};
    if (times.size() != devices || boundaries.size() < links)
        return Error{Errc::invalid, "schedule of " + std::to_string(devices) + " devices: times of " +
                                        std::to_string(times.size()) + " and " +
                                        std::to_string(boundaries.size()) + " boundaries; it needs " +
                                        std::to_string(devices) + " and " + std::to_string(links)};
    for (std::size_t d = 0; d < devices; ++d) {
        if (times[d].size() != static_cast<std::size_t>(schedule.chunks))
            return Error{Errc::invalid, "device " + std::to_string(d) + ": times of " +
                                            std::to_string(times[d].size()) + " chunks; the schedule has " +
                                            std::to_string(schedule.chunks)};
        if (auto trouble = trouble_at(schedule, d)) return *std::move(trouble);
    }
    return Run(schedule, times, boundaries, sends).ends();
}

} // namespace spider::plan
