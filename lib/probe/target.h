// SPDX-License-Identifier: GPL-3.0-or-later
// The agent's end of one test: the thread of the control connection serves it, each stream attaches from the
// thread of its own connection.
#pragma once

#include "probe/channel.h"
#include "probe/flow.h"
#include "probe/messages.h"

#include <memory>
#include <mutex>

namespace spider::probe {

class Target {
  public:
    explicit Target(const Order &granted) : order_(granted), token_(random_hex(32)) {}

    // Answers until the client has gone; good when it went after the last phase.
    Result<void> serve(Channel &control, const Deadline &deadline);
    // Is the stream that `request` asks for, to its end.
    Result<void> attach(Channel stream, const Json &request, const Deadline &deadline);
    [[nodiscard]] Bytes carried() const { return carried_; }

  private:
    struct Phase {
        Phase(const PhaseKind &kind, const Order &order);
        std::optional<Flow> forth, back; // seen from the client
        std::vector<Flow *> flows;
        [[nodiscard]] bool all(bool (Flow::*is)() const) const;
    };
    Result<void> answer(Channel &control, const Json &request, const Deadline &deadline);
    Result<void> prepare(const Json &request);
    Result<void> run(Channel &control, const Deadline &deadline);
    void end_phase();
    std::shared_ptr<Phase> phase();

    const Order order_;
    const std::string token_;
    int echoed_ = 0;
    int next_ = 0; // phase
    Bytes carried_ = 0;
    std::mutex mutex_;
    std::shared_ptr<Phase> phase_;
};

} // namespace spider::probe
