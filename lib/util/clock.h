// SPDX-License-Identifier: GPL-3.0-or-later
// Time comes in from outside: programs pass SystemClock, tests pass ManualClock.
#pragma once

namespace spider::util {

using Seconds = double;

class Clock {
  public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual Seconds now() const = 0;     // since the epoch, for people and for Slurm
    [[nodiscard]] virtual Seconds elapsed() const = 0; // monotonic, for deadlines
};

class SystemClock final : public Clock {
  public:
    [[nodiscard]] Seconds now() const override;
    [[nodiscard]] Seconds elapsed() const override;
};

class ManualClock final : public Clock {
  public:
    Seconds at = 0;
    [[nodiscard]] Seconds now() const override { return at; }
    [[nodiscard]] Seconds elapsed() const override { return at; }
};

} // namespace spider::util

namespace spider {
using util::Seconds;
}
