// SPDX-License-Identifier: GPL-3.0-or-later
// One end of one direction of one phase: streams, each a thread with one buffer, and what they carried. The
// thread that conducts the phase begins, watches and ends it; streams come in from their own threads.
#pragma once

#include "probe/deadline.h"
#include "probe/measurement.h"
#include "probe/order.h"
#include "util/fd.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

namespace spider::probe {

struct Mark { // so many bytes had been carried at that time
    Seconds at = 0;
    Bytes bytes = 0;
};

// What the marks of a receiver say: the first second is left out, or half of the time if that is less.
Rate rate_of(std::span<const Mark> marks);

class Flow {
  public:
    Flow(bool sends, const Order &granted);

    // A stream first takes one of the places; then it waits for begin() and carries bytes until the flow ends
    // or its own part is done. Its socket must then be closed by abandon(). An error before the end is what
    // rate() gives.
    bool join();
    void carry(int fd, const Deadline &deadline);
    [[nodiscard]] bool complete() const { return joined_ == order_.streams; }
    [[nodiscard]] bool over() const { return left_ == order_.streams; }

    void begin();
    void mark(); // a receiver's intervals
    void end();  // streams leave soon

    [[nodiscard]] bool sends() const { return sends_; }
    [[nodiscard]] Bytes bytes() const { return carried_; }
    [[nodiscard]] Result<Rate> rate() const; // of an ended flow, once its streams have left

  private:
    Result<void> send(int fd, const Deadline &deadline);
    Result<void> receive(int fd, const Deadline &deadline);
    Bytes reserve(Bytes most);
    bool wait_for_begin(const Deadline &deadline);
    [[nodiscard]] bool ahead_of_pace() const;
    void keep_facts(int fd);
    void keep_trouble(Error error);

    const bool sends_;
    const Order order_;
    std::atomic<int> joined_ = 0, left_ = 0;
    std::atomic<double> carried_ = 0;
    std::atomic<Seconds> last_at_ = 0; // of the latest bytes
    std::atomic<bool> ended_ = false;
    Seconds begun_at_ = 0;
    std::vector<Mark> marks_;

    mutable std::mutex mutex_; // of all below
    std::condition_variable changed_;
    bool begun_ = false;
    Rate facts_; // of the sender
    std::optional<Error> trouble_;
};

// Conducts flows that have all their streams until `seconds` have passed or nothing more can come, and ends
// those that receive; the others go on so that the far end is served to its end.
Result<void> conduct(std::span<Flow *const> flows, Seconds seconds, const Deadline &deadline);

// Closes a socket so that what is still queued is thrown away and does not burden the next phase.
void abandon(util::Fd fd);

} // namespace spider::probe
