// SPDX-License-Identifier: GPL-3.0-or-later
#include "federation/federation.h"

#include <cmath>
#include <set>

namespace spider::federation {

namespace {

bool inside(SiteId id, std::size_t sites) {
    return id.value >= 0 && static_cast<std::size_t>(id.value) < sites;
}

std::optional<Error> trouble_with(const Link &link, const std::vector<Site> &sites) {
    if (!inside(link.from, sites.size()) || !inside(link.to, sites.size()))
        return Error{Errc::invalid, "a link names a site that does not exist"};
    const auto name = "link " + sites[static_cast<std::size_t>(link.from.value)].name + " -> " +
                      sites[static_cast<std::size_t>(link.to.value)].name;
    if (link.from == link.to) return Error{Errc::invalid, name + ": from a site to itself"};
    if (!std::isfinite(link.bandwidth_gbps) || link.bandwidth_gbps <= 0)
        return Error{Errc::invalid, name + ": bandwidth must be a number above 0 Gbit/s"};
    if (!std::isfinite(link.rtt_ms) || link.rtt_ms < 0)
        return Error{Errc::invalid, name + ": RTT must be a number of at least 0 ms"};
    return std::nullopt;
}

} // namespace

Result<Federation> Federation::make(std::vector<Site> sites, const std::vector<Link> &links) {
    Federation federation;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < sites.size(); ++i) {
        if (sites[i].name.empty()) return Error{Errc::invalid, "a site has no name"};
        if (!names.insert(sites[i].name).second)
            return Error{Errc::invalid, "two sites have the name " + sites[i].name};
        sites[i].id = SiteId{static_cast<int>(i)};
    }
    federation.links_.resize(sites.size() * sites.size());
    for (const auto &link : links) {
        if (auto trouble = trouble_with(link, sites)) return std::move(*trouble);
        federation.links_[federation.index(link.from, link.to, sites.size())] = link;
    }
    federation.sites_ = std::move(sites);
    return federation;
}

std::size_t Federation::index(SiteId from, SiteId to, std::size_t sites) {
    return static_cast<std::size_t>(from.value) * sites + static_cast<std::size_t>(to.value);
}

const Site *Federation::site(std::string_view name) const {
    for (const auto &site : sites_)
        if (site.name == name) return &site;
    return nullptr;
}

std::optional<Link> Federation::link(SiteId from, SiteId to) const {
    if (!inside(from, sites_.size()) || !inside(to, sites_.size())) return std::nullopt;
    return links_[index(from, to, sites_.size())];
}

} // namespace spider::federation
