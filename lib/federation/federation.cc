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
    for (const int resource : resources(from, to))
        link.bandwidth_gbps = std::min(link.bandwidth_gbps, capacities_[at(resource)]);
    return link;
}

const Origin *Federation::own_origin(SiteId from, SiteId to) const {
    const auto &origins = network_.origins;
    const auto found = std::lower_bound(origins.begin(), origins.end(), std::pair(from, to),
                                        [](const Origin &origin, const std::pair<SiteId, SiteId> &ends) {
                                            return std::pair(origin.from, origin.to) < ends;
                                        });
    return found != origins.end() && found->from == from && found->to == to ? &*found : nullptr;
}

const Origin *Federation::origin(SiteId from, SiteId to) const {
    const Origin *oldest = nullptr;
    for (const int resource : resources(from, to)) {
        const auto index = at(resource - first_link_);
        if (resource < first_link_ || index >= links_.size()) continue;
        const auto *origin = own_origin(links_[index].from, links_[index].to);
        if (origin == nullptr) continue;
        const bool older =
            oldest == nullptr || (origin->measured_at > 0 &&
                                  (oldest->measured_at <= 0 || origin->measured_at < oldest->measured_at));
        if (older) oldest = origin;
    }
    return oldest;
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
