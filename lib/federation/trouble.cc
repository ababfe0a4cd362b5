// SPDX-License-Identifier: GPL-3.0-or-later
#include "federation/trouble.h"

#include <cmath>
#include <set>

namespace spider::federation {

namespace {

Error invalid(std::string what) { return {Errc::invalid, std::move(what)}; }

bool is_size(double value) { return std::isfinite(value) && value > 0; }
bool is_size_or_none(double value) { return std::isfinite(value) && value >= 0; }

std::optional<Error> trouble_with(const Site &site) {
    for (const auto &[what, value] :
         {std::pair("uplink", site.uplink_gbps), std::pair("downlink", site.downlink_gbps),
          std::pair("network inside", site.intra_gbps)})
        if (!is_size_or_none(value))
            return invalid("site " + site.name + ": " + what +
                           " must be a number of at least 0 Gbit/s, 0 = none given");
    if (!is_size_or_none(site.intra_rtt_ms))
        return invalid("site " + site.name + ": RTT inside must be a number of at least 0 ms");
    return std::nullopt;
}

std::string pair_name(SiteId from, SiteId to, const std::vector<Site> &sites) {
    return sites[static_cast<std::size_t>(from.value)].name + " -> " +
           sites[static_cast<std::size_t>(to.value)].name;
}

bool is_outside(SiteId id, const std::vector<Site> &sites) {
    return id.value < 0 || static_cast<std::size_t>(id.value) >= sites.size();
}

// "a link names ...", "link a -> a: ..."
std::optional<Error> trouble_with_ends(SiteId from, SiteId to, const std::vector<Site> &sites,
                                       std::string_view article, std::string_view what) {
    if (is_outside(from, sites) || is_outside(to, sites))
        return invalid(std::string(article) + std::string(what) + " names a site that does not exist");
    if (from != to) return std::nullopt;
    return invalid(std::string(what) + " " + pair_name(from, to, sites) + ": from a site to itself");
}

std::optional<Error> trouble_with(const SharedLink &shared, const std::vector<Site> &sites) {
    const auto name = "shared link " + shared.name;
    if (!is_size(shared.gbps)) return invalid(name + ": gbps must be a number above 0 Gbit/s");
    for (const auto &[from, to] : shared.pairs)
        if (auto trouble = trouble_with_ends(from, to, sites, "", name + ": pair")) return trouble;
    return std::nullopt;
}

} // namespace

std::optional<Error> trouble_with(const std::vector<Site> &sites) {
    if (sites.size() > max_sites)
        return invalid(std::to_string(sites.size()) + " sites; at most " + std::to_string(max_sites));
    std::set<std::string_view> names;
    for (const auto &site : sites) {
        if (site.name.empty()) return invalid("a site has no name");
        if (!names.insert(site.name).second) return invalid("two sites have the name " + site.name);
        if (auto trouble = trouble_with(site)) return trouble;
    }
    return std::nullopt;
}

std::optional<Error> trouble_with(const Link &link, const std::vector<Site> &sites) {
    if (auto trouble = trouble_with_ends(link.from, link.to, sites, "a ", "link")) return trouble;
    const auto name = [&] { return "link " + pair_name(link.from, link.to, sites); };
    if (!is_size(link.bandwidth_gbps)) return invalid(name() + ": bandwidth must be a number above 0 Gbit/s");
    if (!is_size_or_none(link.rtt_ms)) return invalid(name() + ": RTT must be a number of at least 0 ms");
    if (link.streams < 0 || link.window_bytes < 0)
        return invalid(name() + ": streams and window_bytes must be at least 0, 0 = none given");
    return std::nullopt;
}

std::optional<Error> trouble_with(const Network &network, const std::vector<Site> &sites) {
    std::set<std::string_view> names;
    for (const auto &shared : network.shared) {
        if (shared.name.empty()) return invalid("a shared link has no name");
        if (!names.insert(shared.name).second)
            return invalid("two shared links have the name " + shared.name);
        if (auto trouble = trouble_with(shared, sites)) return trouble;
    }
    for (const auto &reserved : network.reserved) {
        if (auto trouble = trouble_with_ends(reserved.from, reserved.to, sites, "a ", "reservation"))
            return trouble;
        if (!is_size_or_none(reserved.gbps))
            return invalid("reservation " + pair_name(reserved.from, reserved.to, sites) +
                           ": gbps must be a number of at least 0 Gbit/s");
    }
    for (const auto &origin : network.origins) {
        if (auto trouble = trouble_with_ends(origin.from, origin.to, sites, "a ", "measured link"))
            return trouble;
        if (!is_size_or_none(origin.measured_at) || !is_size_or_none(origin.usual_gbps))
            return invalid("measured link " + pair_name(origin.from, origin.to, sites) +
                           ": its time and usual_gbps must be numbers of at least 0");
    }
    return std::nullopt;
}

} // namespace spider::federation
