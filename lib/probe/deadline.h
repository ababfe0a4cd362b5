// SPDX-License-Identifier: GPL-3.0-or-later
// Until when something may wait, and the descriptor whose first byte ends every wait early. A value, any
// thread.
#pragma once

#include "util/clock.h"
#include "util/result.h"

namespace spider::probe {

Seconds elapsed(); // of the monotonic clock

class Deadline {
  public:
    // `stop` is borrowed; -1 = nothing ends the wait early.
    explicit Deadline(Seconds in, int stop = -1) : until_(elapsed() + in), stop_(stop) {}

    [[nodiscard]] Deadline within(Seconds in) const; // at most so long from now, and never later than this
    [[nodiscard]] Seconds left() const { return until_ - elapsed(); }
    // Errc::timeout when it has passed, Errc::refused when it was ended early.
    [[nodiscard]] Result<void> good() const;
    // Until one of `events` (poll(2)) is seen on `fd`.
    [[nodiscard]] Result<void> wait(int fd, short events) const;
    // For so long, or until it ends early; the deadline itself is no error.
    [[nodiscard]] Result<void> pause(Seconds seconds) const;

  private:
    Seconds until_;
    int stop_;
};

} // namespace spider::probe
