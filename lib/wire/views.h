// SPDX-License-Identifier: GPL-3.0-or-later
// What callers of the broker get to see of jobs and sites, as plain values; their JSON is in messages.h. Any
// thread.
#pragma once

#include "model/json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spider::wire {

struct PartView {
    std::string site;
    std::int64_t job = 0; // Slurm's id there; 0 = not submitted yet
    std::string state;    // Slurm's word, "PENDING"
    int nodes = 0;
    int gpus = 0;
    std::string stages;         // "0-1"
    std::string output;         // path at that site; "%N" and "%j" stay until they are known
    std::string error;          // the same path when nothing else was asked
    Seconds expected_start = 0; // since the epoch, while it waits; 0 = not known
    int restarts = 0;           // Slurm's count of its starts anew
    bool operator==(const PartView &) const = default;
};

struct HistoryLine {
    Seconds at = 0; // since the epoch
    std::string state;
    std::string why;
    bool operator==(const HistoryLine &) const = default;
};

struct JobView { // GET /v1/jobs/ID, DELETE /v1/jobs/ID; {"jobs": [...]} of GET /v1/jobs[?all=1]
    std::string id;
    std::string user;
    std::string name;
    std::string state;  // a word of coalloc: asked planned placing holding ... done failed cancelled
    std::string reason; // one sentence: why it waits, or why it ended
    int attempt = 0;
    Seconds submitted = 0; // since the epoch
    std::string line;
    std::optional<Plan> plan; // may be left out in lists
    std::vector<PartView> parts;
    std::vector<HistoryLine> history;
    int attempts = 0;            // in all, as SPEC says
    std::string on_failure;      // "cancel", "retry", "replan"
    double idle_gpu_seconds = 0; // of GPUs that were held for parts that did not run yet
    int turns = 0;               // how often they were given back
    bool operator==(const JobView &) const = default;
};

struct JobList {
    std::vector<JobView> jobs;
    bool operator==(const JobList &) const = default;
};

struct SiteView {
    std::string name;
    std::string state; // ACTIVE | DRAIN | INACTIVE
    int nodes = 0;
    int free_nodes = 0;
    int gpus = 0;
    int free_gpus = 0;
    std::string gpu;     // type(s)
    Seconds seen_at = 0; // since the epoch; 0 = never
    bool stale = false;
    std::string trouble;
    std::string api; // "v0.0.38"
    bool operator==(const SiteView &) const = default;
};

struct LinkView {
    std::string from, to; // sites
    double bandwidth_gbps = 0;
    double rtt_ms = 0;
    bool operator==(const LinkView &) const = default;
};

struct SitesView { // GET /v1/sites
    std::string home;
    std::vector<SiteView> sites;
    std::vector<LinkView> links;
    bool operator==(const SitesView &) const = default;
};

} // namespace spider::wire
