// SPDX-License-Identifier: GPL-3.0-or-later
// Tests under way: each waits for its agent's answer in a thread of its own, since it takes seconds and the
// broker's thread never waits. Used by the broker's thread.
#pragma once

#include "probe/measurement.h"
#include "probe/order.h"
#include "util/fd.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace spider::broker {

struct LinkTest {
    std::string agent;    // "host:port" of the one who measures
    std::string key_file; // of the federation's agents
    probe::Order order;
    Seconds deadline = 20; // for its answer
};

struct Tested {
    LinkTest test;
    Result<probe::Measurement> found;
};

class Prober {
  public:
    // Blocks until the answer is there; gives up at once when `stop` becomes readable.
    using Ask = std::function<Result<probe::Measurement>(const LinkTest &, int stop)>;

    explicit Prober(Ask ask);
    ~Prober(); // tests under way are given up
    Prober(Prober &&) noexcept;
    Prober &operator=(Prober &&) noexcept;

    void start(LinkTest test);
    std::vector<Tested> take(); // those that have ended since
    [[nodiscard]] std::size_t under_way() const { return running_.size(); }

  private:
    struct Running;
    Ask ask_;
    util::Fd stop_; // eventfd, readable when all is to end
    std::vector<std::unique_ptr<Running>> running_;
};

} // namespace spider::broker
