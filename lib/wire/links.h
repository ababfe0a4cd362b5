// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker and its callers tell each other of the links between sites, as plain values; their JSON is
// in messages.h. Any thread.
#pragma once

#include "probe/sample.h"

#include <string>
#include <vector>

namespace spider::wire {

struct LinkState { // one direction; what is not known is 0
    std::string from, to;
    double gbps = 0;        // what plans use
    double gbps_median = 0; // of the samples that it rests on
    double rtt_ms = 0;      // median
    double rtt_min_ms = 0;
    double rtt_p95_ms = 0;
    int streams = 0;
    std::string source;       // "pinned", or as of probe::Source; empty = not known
    Seconds measured_at = 0;  // since the epoch; 0 = never
    int samples = 0;          // that gbps rests on
    double reserved_gbps = 0; // what running federated jobs send on it
    std::string trouble;      // why it is not known, or what does not fit together; may be empty
    Seconds next_due = 0;     // since the epoch; 0 = never: a site without an agent
    bool testing = false;     // now
    bool operator==(const LinkState &) const = default;
};

struct LinksView {       // GET /v1/links; POST /v1/links/measure
    Seconds now = 0;     // of the broker, since the epoch
    Seconds max_age = 0; // what is older is not used
    std::vector<LinkState> links;
    bool operator==(const LinksView &) const = default;
};

struct MeasureRequest { // POST /v1/links/measure
    std::string from, to;
    bool operator==(const MeasureRequest &) const = default;
};

struct ImportRequest { // POST /v1/links
    std::vector<probe::Sample> samples;
    bool operator==(const ImportRequest &) const = default;
};

struct ImportReply {
    int taken = 0; // samples
    bool operator==(const ImportReply &) const = default;
};

} // namespace spider::wire
