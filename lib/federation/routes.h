// SPDX-License-Identifier: GPL-3.0-or-later
// Widest-then-shortest routes over sites that forward. Pure, any thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace spider::federation {

// A link out of a site, as routing sees it.
struct Edge {
    int to = 0;
    int link = 0;     // the caller's number
    double width = 0; // Gbit/s
    double rtt_ms = 0;
};

struct Graph {
    std::vector<std::vector<Edge>> edges; // out of each site
    std::vector<bool> forwards;           // may stand inside a route
};

struct Route {
    int from = 0, to = 0;
    double rtt_ms = 0;
    std::span<const int> links; // in order; valid during the call
};

// For each pair of sites without an edge but with a way: of the routes whose narrowest link is widest, the
// one with the least sum of RTTs; of those, always the same. `found` returns false to stop.
void find_routes(Graph graph, const std::function<bool(const Route &)> &found);

} // namespace spider::federation
