// SPDX-License-Identifier: GPL-3.0-or-later
// What one measurement says of one direction between two sites, whoever made it, and what a plan may take
// from many of them. Plain values, pure functions.
#pragma once

#include "model/json.h"
#include "util/clock.h"
#include "util/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace spider::probe {

// In the order of trust: what our own agents and jobs saw, what others saw, what somebody wrote down.
enum class Source { probe, job, perfsonar, iperf3, file };
std::string_view name(Source source); // "probe", "job", "perfsonar", "iperf3", "file"
std::optional<Source> source_named(std::string_view text);

struct Sample {
    std::string from, to; // sites
    Source source = Source::probe;
    Seconds at = 0; // since the epoch
    // Gbit/s of payload; 0 = not measured.
    double gbps = 0;      // mean, the first second left out
    double gbps_low = 0;  // 10th percentile of the intervals of that time
    double gbps_both = 0; // mean while the other direction was measured too
    // Round trip, ms; 0 = not measured.
    double rtt_min_ms = 0;
    double rtt_ms = 0; // median
    double rtt_p95_ms = 0;
    int streams = 0; // 0 = not known
    std::int64_t retransmits = 0;
    Bytes bytes = 0;        // that the measurement sent this way
    std::string congestion; // control of the sender, "cubic"; may be empty
    bool operator==(const Sample &) const = default;
};

// Faster than any link there is: a measurement that says more is a broken one.
constexpr double most_gbps = 5000;
constexpr double most_rtt_ms = 10'000;

// Errc::invalid when no link can be so: nothing measured, negative, not a number, beyond the limits above, a
// time of 0.
Result<void> plausible(const Sample &sample);

// What is known of one direction now.
struct Known {
    double gbps = 0;        // 10th percentile of the latest samples: what plans use
    double gbps_median = 0; // of the same
    double rtt_ms = 0;      // median, of the latest sample with one
    double rtt_min_ms = 0;
    double rtt_p95_ms = 0;
    int streams = 0;
    Source source = Source::probe; // of the bandwidth
    Seconds measured_at = 0;       // the older one of bandwidth and round trip
    int samples = 0;               // that the bandwidth rests on
    bool operator==(const Known &) const = default;
};

constexpr std::size_t samples_used = 8; // the latest so many

// From the samples of one direction, in any order: the most trusted source that has one younger than
// `max_age`. Nothing when bandwidth or round trip is not known: an unknown link is neither slow nor fast.
std::optional<Known> known(std::span<const Sample> samples, Seconds now, Seconds max_age);

Json to_json(const Sample &sample);
Result<Sample> sample_from_json(const Json &json); // Errc::invalid names the key

} // namespace spider::probe
