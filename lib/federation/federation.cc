// SPDX-License-Identifier: GPL-3.0-or-later
// What a snapshot answers. How its network is laid: network.cc.
#include "federation/federation.h"

#include <algorithm>

namespace spider::federation {

namespace {

constexpr double bytes_per_gbit = 125e6;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

} // namespace

const Site *Federation::site(std::string_view name) const {
    const auto found =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [this](int index, std::string_view text) { return sites_[at(index)].name < text; });
    if (found == by_name_.end() || sites_[at(*found)].name != name) return nullptr;
    return &sites_[at(*found)];
}

const int *Federation::way(SiteId from, SiteId to) const {
    const auto sites = static_cast<int>(sites_.size());
    if (from.value < 0 || from.value >= sites || to.value < 0 || to.value >= sites) return nullptr;
    const auto *way = &ways_[at(from.value) * sites_.size() + at(to.value)];
    return *way == no_way ? nullptr : way;
}

std::optional<Link> Federation::link(SiteId from, SiteId to) const {
    const auto *way = this->way(from, to);
    if (way == nullptr) return std::nullopt;
    const auto index = at(*way - first_link_);
    Link link{from, to, capacities_[at(*way)]};
    link.rtt_ms = index < links_.size() ? links_[index].rtt_ms : route_rtts_[index - links_.size()];
    for (const int resource : resources(from, to)) {
        link.bandwidth_gbps = std::min(link.bandwidth_gbps, capacities_[at(resource)]);
        if (resource >= first_link_) rest_on(link, at(resource - first_link_));
    }
    return link;
}

// A route is as old as the oldest of its links.
void Federation::rest_on(Link &link, std::size_t crossed) const {
    if (crossed >= links_.size()) return;
    const auto &one = links_[crossed];
    if (link.source.empty() || (one.measured_at > 0 && one.measured_at < link.measured_at)) {
        link.source = one.source;
        link.measured_at = one.measured_at;
        link.usual_gbps = one.usual_gbps;
    }
}

std::span<const int> Federation::resources(SiteId from, SiteId to) const {
    const auto *way = this->way(from, to);
    if (way == nullptr) return {};
    if (starts_.empty()) return {way, 1};
    const auto index = at(*way - first_link_);
    return std::span(crossings_).subspan(starts_[index], starts_[index + 1] - starts_[index]);
}

double Federation::capacity(int resource) const { return capacities_[at(resource)] * bytes_per_gbit; }

std::string Federation::resource_name(int resource) const {
    const auto shared = static_cast<int>(network_.shared.size());
    if (resource < shared) return "shared " + network_.shared[at(resource)].name;
    if (resource < first_link_) {
        const int gateway = resource - shared;
        return (gateway % 2 == 0 ? "uplink of " : "downlink of ") + sites_[at(gateway / 2)].name;
    }
    const auto found = at(static_cast<int>(std::find(ways_.begin(), ways_.end(), resource) - ways_.begin()));
    return sites_[found / sites_.size()].name + " -> " + sites_[found % sites_.size()].name;
}

} // namespace spider::federation
