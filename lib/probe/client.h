// SPDX-License-Identifier: GPL-3.0-or-later
// Measuring towards an agent, and asking an agent to do so. Blocking, with a deadline in seconds from now; no
// state, any thread, several at once.
#pragma once

#include "probe/address.h"
#include "probe/key.h"
#include "probe/measurement.h"
#include "probe/order.h"

namespace spider::probe {

// Asks the agent at `agent` ("host:port"), which must be that of site order.from, to measure towards
// order.to. Gives up when `stop` can be read (-1 = never).
Result<Measurement> ask(const std::string &agent, const Key &key, const Order &order, Seconds deadline,
                        int stop = -1);

// Measures from this process to the agent at order.address, which must be that of order.to (empty = any).
Result<Measurement> measure(const Key &key, const Order &order, Seconds deadline);

// The agent asked, or the one it measures towards, has another test: ask again later.
bool is_busy(const Error &error);

// What an agent adds when it measures: which addresses it may connect to, and a count of what was carried.
struct Care {
    std::function<bool(const Address &)> admits; // empty = all
    Bytes carried = 0;                           // both directions, also of a test that failed
};
Result<Measurement> measure_with(const Key &key, const Order &order, const Deadline &deadline, Care &care);

} // namespace spider::probe
