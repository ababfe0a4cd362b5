// SPDX-License-Identifier: GPL-3.0-or-later
// An immutable snapshot of sites and the network between them, shared as shared_ptr<const Federation>. Any
// thread.
#pragma once

#include "model/json.h"
#include "model/site.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace spider::federation {

constexpr std::size_t max_sites = 4096; // there is a table of sites x sites
// However much running jobs were promised, this share of a link, gateway or shared link is taken to be left:
// a promise is an average, and nobody's packets are stopped.
constexpr double least_share_left = 0.01;

// One capacity that all flows between these pairs of sites cross, each pair in the one direction given.
struct SharedLink {
    std::string name;
    double gbps = 0;
    std::vector<std::pair<SiteId, SiteId>> pairs;
    bool operator==(const SharedLink &) const = default;
};

// What running jobs use between two sites.
struct Reservation {
    SiteId from, to;
    double gbps = 0;
    bool operator==(const Reservation &) const = default;
};

// Where the numbers of a link come from.
struct Origin {
    SiteId from, to;
    std::string source;      // "pinned", "probe", "iperf3", …
    Seconds measured_at = 0; // since the epoch; 0 = not measured
    double usual_gbps = 0;   // what it carried in most of the latest measurements; 0 = not known
    bool operator==(const Origin &) const = default;
};

// What the network is besides its links, and what is known of them.
struct Network {
    std::vector<SharedLink> shared;
    std::vector<Reservation> reserved;
    std::vector<Origin> origins; // a later one of the same link replaces an earlier one
    bool operator==(const Network &) const = default;
};

class Federation {
  public:
    // A later link between the same two sites replaces an earlier one. Errors: two sites of one name, more
    // than max_sites, senseless numbers, links of any kind that name a site outside `sites` or join it to
    // itself.
    static Result<Federation> make(std::vector<Site> sites, std::vector<Link> links, Network network = {});

    [[nodiscard]] const std::vector<Site> &sites() const { return sites_; }
    [[nodiscard]] const Site *site(std::string_view name) const;
    [[nodiscard]] const Site &site(SiteId id) const { return sites_[static_cast<std::size_t>(id.value)]; }
    [[nodiscard]] const std::vector<Link> &links() const { return links_; } // as measured
    [[nodiscard]] const Network &network() const { return network_; }

    // What one flow between two sites gets while no other flow runs: over the link or, where there is none,
    // over the route; windows, gateways, shared links and reservations are applied. Nothing: no way.
    [[nodiscard]] std::optional<Link> link(SiteId from, SiteId to) const;

    // Where its numbers come from: of a route, those of its oldest link. Null: the federation's file, or no
    // way. Valid as long as the snapshot.
    [[nodiscard]] const Origin *origin(SiteId from, SiteId to) const;

    // What a flow from -> to shares with other flows: the pair's own link or route first, then the links of
    // the route, gateways with a limit, shared links; each once. Empty: no way. Valid as long as the
    // snapshot.
    [[nodiscard]] std::span<const int> resources(SiteId from, SiteId to) const;
    [[nodiscard]] double capacity(int resource) const; // bytes/s that reservations leave
    [[nodiscard]] int resource_count() const { return static_cast<int>(capacities_.size()); }
    [[nodiscard]] std::string resource_name(int resource) const; // "a -> b", "uplink of a", "shared NAME"

  private:
    class Weaver; // lays the network: network.cc
    static constexpr int no_way = -1;
    [[nodiscard]] const int *way(SiteId from, SiteId to) const; // nullptr: outside, or no way
    [[nodiscard]] const Origin *own_origin(SiteId from, SiteId to) const;

    std::vector<Site> sites_;
    std::vector<int> by_name_; // sites in the order of their names
    std::vector<Link> links_;
    Network network_;
    // Resources: the shared links, up- and downlink of each site, the links, the routes.
    int first_link_ = 0;
    std::vector<double> capacities_; // Gbit/s
    std::vector<double> route_rtts_; // ms
    std::vector<int> ways_;          // sites x sites, row = from: resource of the link or route, or no_way
    // What each link and route crosses: crossings_[starts_[i]..starts_[i + 1]). Both stay empty when
    // everything crosses just itself, as measured links alone do.
    std::vector<std::uint32_t> starts_;
    std::vector<int> crossings_;
};

// The federation file, spiderflow-federation(5).
Result<Federation> read_federation(const Json &json);
Json to_json(const Federation &federation);

} // namespace spider::federation

namespace spider {
using federation::Federation;
} // namespace spider
