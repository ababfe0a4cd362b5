// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker tells Prometheus, as plain values and as the text of GET /metrics. Pure, any thread.
#pragma once

#include "util/clock.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace spider::broker {

struct SiteMetrics {
    std::string name;
    bool up = false;           // the last look at its nodes went well
    Seconds seen_at = 0;       // since the epoch; 0 = never
    Seconds token_expires = 0; // since the epoch; 0 = not known
    int nodes = 0;             // in service, as the GPUs
    int free_gpus = 0;
    int gpus = 0;
    std::int64_t requests = 0; // since the broker started
    std::int64_t failures = 0; // of these
};

// One direction between two sites, as plans take it.
struct LinkMetrics {
    std::string from, to;
    std::string source;          // "pinned", "probe", …
    double bytes_per_second = 0; // of bandwidth
    Seconds rtt = 0;
    Seconds measured_at = 0; // since the epoch; 0 = it was not
};

// Totals are since the broker started. A map holds what is shown: zeros belong into it, too.
struct Metrics {
    std::map<std::string, int> jobs_by_state;
    std::map<std::string, std::int64_t> ended_total;    // by state: done, failed, cancelled
    std::map<std::string, std::int64_t> attempts_total; // by result
    double idle_gpu_seconds_total = 0;                  // at the rendezvous
    std::int64_t turns_total = 0;                       // how often GPUs were given back
    Seconds oldest_wait = 0;                            // of a job that does not run; 0 = none waits
    bool journal_good = false;
    std::vector<SiteMetrics> sites;
    std::vector<LinkMetrics> links; // that are known
    Seconds now = 0;                // since the epoch
    std::string version;
};

// Prometheus' text format, version 0.0.4; no series stands in it twice.
constexpr const char *metrics_type = "text/plain; version=0.0.4";
std::string to_text(const Metrics &metrics);

} // namespace spider::broker
