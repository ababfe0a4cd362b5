// SPDX-License-Identifier: GPL-3.0-or-later
// What one test between the agents of two sites found. A plain value; travels as JSON from the agent that
// measured to whoever asked it to.
#pragma once

#include "probe/sample.h"

#include <array>

namespace spider::probe {

// One direction during one phase of a test.
struct Rate {
    double gbps = 0; // payload that arrived, the first second left out
    double low = 0;  // Gbit/s, 10th percentile of the intervals
    Bytes bytes = 0; // that arrived in all
    // From the sender's TCP_INFO, all streams together.
    std::int64_t retransmits = 0;
    double delivery_gbps = 0;
    std::string congestion;
    bool operator==(const Rate &) const = default;
};

struct Measurement {
    Seconds at = 0; // when it ended, since the epoch
    int streams = 0;
    Seconds rtt_min = 0, rtt_median = 0, rtt_p95 = 0;
    Rate forth, back;           // each alone; forth: what the one who measures sends
    Rate forth_both, back_both; // both at once
    bool operator==(const Measurement &) const = default;
};

Json to_json(const Rate &rate);
Rate read_rate(const Json &json, const std::string &place, std::optional<Error> &trouble);
Json to_json(const Measurement &measurement);
Result<Measurement> measurement_from_json(const Json &json); // Errc::invalid names the key

// Both directions, `from` being the one who measured.
std::array<Sample, 2> samples_of(const Measurement &measurement, const std::string &from,
                                 const std::string &to);

} // namespace spider::probe
