// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/flows.h"

#include "federation/sharing.h"

#include <map>
#include <utility>

namespace spider::plan {

std::size_t Flows::add(int from, int to, int count) {
    flows_.push_back({from, to, count});
    return flows_.size() - 1;
}

SiteId Flows::id(int site) const { return problem_.sites()[static_cast<std::size_t>(site)].pool.site; }

void Flows::share() {
    bool own_links = true; // nobody shares with another pair of sites: no need to fill any water
    for (const auto &flow : flows_)
        own_links = own_links && problem_.federation().resources(id(flow.from), id(flow.to)).size() == 1;
    if (own_links)
        share_pairs();
    else
        share_everything();
}

void Flows::share_pairs() {
    std::map<std::pair<int, int>, int> crossing;
    for (const auto &flow : flows_)
        crossing[{flow.from, flow.to}] += flow.count;
    for (const auto &flow : flows_)
        costs_.push_back(problem_.hop(flow.from, flow.to).shared(crossing[{flow.from, flow.to}]));
}

void Flows::share_everything() {
    std::vector<federation::Traffic> traffic;
    for (const auto &flow : flows_)
        traffic.push_back(
            {id(flow.from), id(flow.to), 1 / problem_.hop(flow.from, flow.to).seconds_per_byte, flow.count});
    for (const double rate : federation::share(problem_.federation(), traffic))
        costs_.push_back(1 / rate);
}

} // namespace spider::plan
