// SPDX-License-Identifier: GPL-3.0-or-later
// What is to be measured, and how much of it an agent grants. Plain values; both travel as JSON.
#pragma once

#include "model/json.h"
#include "model/site.h"

#include <string>

namespace spider::probe {

using model::Bytes;
using model::Json;

constexpr int most_streams = 16;
constexpr Seconds most_seconds = 60; // of one phase

struct Order {
    std::string from, to;   // sites: who measures, and to whom
    std::string address;    // of `to`'s agent: "host:port", "[v6]:port"
    int streams = 4;        // of each direction
    Seconds seconds = 3;    // of each of the three phases; the first second is left out
    Bytes most_bytes = 4e9; // of each direction and phase: then the phase ends early
    double pace_gbps = 0;   // all streams of a direction together; 0 = as fast as it goes
    bool operator==(const Order &) const = default;
};

// The limits of one agent or of one day; 0 = none.
struct Limits {
    int streams = most_streams;
    double gbps = 0;
    Bytes bytes = 0; // of a whole test, both directions together
};

// Lowers what is above a limit. A test has four times a direction: each gets a quarter of the bytes.
Order limited(Order order, const Limits &limits);

Json to_json(const Order &order);
Result<Order> order_from_json(const Json &json); // Errc::invalid names the key

// How long a test may take in all once both agents are connected.
Seconds longest(const Order &order);

} // namespace spider::probe
