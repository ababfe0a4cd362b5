// SPDX-License-Identifier: GPL-3.0-or-later
// Sites and links as the planner sees them. Plain values; units in names: bytes, seconds, Gbit/s and ms at
// the edges.
#pragma once

#include "util/clock.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spider::model {

using Bytes = double;

struct SiteId {
    int value = -1; // index into Federation::sites()
    auto operator<=>(const SiteId &) const = default;
};

// What one GPU can do. Peak is dense bf16 (fp16 where the type has no bf16) from the vendor's data sheet.
struct GpuType {
    std::string name;        // lower case, as Slurm's gres type: "h100"
    double peak_flops = 0;   // FLOP/s
    double efficiency = 0.4; // share of the peak that training reaches
    Bytes memory = 0;        // bytes that a training process can use
    double fabric = 100e9;   // bytes/s that an all-reduce inside a node moves per GPU (bus bandwidth)
    bool operator==(const GpuType &) const = default;
};

// How many nodes of a class are free once running jobs have ended.
struct FreeLater {
    Seconds after = 0;  // from now
    int free_nodes = 0; // in all, usable then
    bool operator==(const FreeLater &) const = default;
};

// Nodes of one site that are alike.
struct NodeClass {
    GpuType gpu;
    int nodes = 0;      // in all
    int free_nodes = 0; // with at least one free GPU, usable now
    int gpus_per_node = 0;
    int free_gpus_per_node = 0;        // free on the fullest of free_nodes
    std::vector<FreeLater> later = {}; // ascending; empty = unknown
    bool operator==(const NodeClass &) const = default;
};

enum class SiteState { active, drain, inactive }; // the words of Slurm's federations

struct Site {
    SiteId id;
    std::string name;
    std::vector<NodeClass> classes;
    SiteState state = SiteState::active;
    bool routable = true;     // false: its nodes cannot reach other sites; such a site is never crossed
    Seconds seen_at = 0;      // since the epoch; 0 = never polled
    bool stale = false;       // the last poll failed: do not plan on it
    std::string trouble;      // why it is stale, for people
    double intra_gbps = 0;    // between its own nodes; 0 = not known
    double intra_rtt_ms = 0;  // between its own nodes
    double uplink_gbps = 0;   // all that leaves it together; 0 = no limit
    double downlink_gbps = 0; // all that enters it together; 0 = no limit
    bool transit = false;     // its network forwards what other sites send each other
    bool operator==(const Site &) const = default;
};

// One direction between two sites. Unknown links do not exist: a plan never crosses them.
struct Link {
    SiteId from, to;
    double bandwidth_gbps = 0;
    double rtt_ms = 0;
    int streams = 0;      // parallel connections of one transfer; 0 = not known
    int window_bytes = 0; // of each stream (TCP allows up to 1 GiB, RFC 7323); 0 = not known
    bool operator==(const Link &) const = default;
};

} // namespace spider::model

namespace spider {
using namespace model;
} // namespace spider
