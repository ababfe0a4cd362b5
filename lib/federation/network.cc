// SPDX-License-Identifier: GPL-3.0-or-later
// Lays the network of a snapshot: what each link and route crosses, and what is left of it.
#include "federation/federation.h"

#include "federation/routes.h"
#include "federation/trouble.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace spider::federation {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Crossings of all routes together, 256 MB: 1,024 sites with routes of 60 links on average.
constexpr std::size_t max_crossings = std::size_t{64} << 20;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Bytes that one transfer has under way at most; infinity: not known.
double window(const Link &link) {
    return link.streams > 0 && link.window_bytes > 0 ? static_cast<double>(link.streams) * link.window_bytes
                                                     : infinity;
}

// Gbit/s of a transfer that waits for an answer to every window.
double limit_of(double window, double rtt_ms) { return rtt_ms > 0 ? window * 8 / (rtt_ms * 1e6) : infinity; }

} // namespace

class Federation::Weaver {
  public:
    explicit Weaver(Federation &federation) : it_(federation) {}
    std::optional<Error> run();

  private:
    [[nodiscard]] int uplink(SiteId site) const { return shared_count() + 2 * site.value; }
    [[nodiscard]] int downlink(SiteId site) const { return uplink(site) + 1; }
    [[nodiscard]] int shared_count() const { return static_cast<int>(it_.network_.shared.size()); }
    [[nodiscard]] std::size_t cell(SiteId from, SiteId to) const {
        return at(from.value) * it_.sites_.size() + at(to.value);
    }

    void place_links();
    void set_capacities();
    void list_shared_pairs();
    void cross(int resource);
    void cross_link(std::size_t link);
    void end_crossings() { it_.starts_.push_back(static_cast<std::uint32_t>(it_.crossings_.size())); }
    void cross_links();
    [[nodiscard]] Graph graph() const;
    std::optional<Error> add_routes();
    bool add(const Route &route);
    void reserve();
    void limit_by_windows();
    void sort_origins();

    Federation &it_;
    std::vector<std::pair<std::size_t, int>> shared_pairs_; // cell, shared link; sorted
    std::size_t start_ = 0;                                 // of the crossings being listed
};

// A later link between the same two sites replaces an earlier one.
void Federation::Weaver::place_links() {
    const auto sites = it_.sites_.size();
    it_.first_link_ = shared_count() + 2 * static_cast<int>(sites);
    it_.ways_.assign(sites * sites, no_way);
    std::size_t kept = 0;
    for (const auto &link : it_.links_) {
        auto &way = it_.ways_[cell(link.from, link.to)];
        if (way == no_way) way = it_.first_link_ + static_cast<int>(kept++);
        it_.links_[at(way - it_.first_link_)] = link;
    }
    it_.links_.resize(kept);
    it_.links_.shrink_to_fit();
}

void Federation::Weaver::set_capacities() {
    auto &capacities = it_.capacities_;
    capacities.reserve(at(it_.first_link_) + it_.links_.size());
    for (const auto &shared : it_.network_.shared)
        capacities.push_back(shared.gbps);
    for (const auto &site : it_.sites_)
        for (const double gbps : {site.uplink_gbps, site.downlink_gbps})
            capacities.push_back(gbps > 0 ? gbps : infinity);
    for (const auto &link : it_.links_)
        capacities.push_back(link.bandwidth_gbps);
}

void Federation::Weaver::list_shared_pairs() {
    for (int i = 0; i < shared_count(); ++i)
        for (const auto &[from, to] : it_.network_.shared[at(i)].pairs)
            shared_pairs_.emplace_back(cell(from, to), i);
    std::sort(shared_pairs_.begin(), shared_pairs_.end());
}

void Federation::Weaver::cross(int resource) {
    auto &crossings = it_.crossings_;
    const auto begin = crossings.begin() + static_cast<std::ptrdiff_t>(start_);
    if (it_.capacities_[at(resource)] < infinity &&
        std::find(begin, crossings.end(), resource) == crossings.end())
        crossings.push_back(resource);
}

// What there is on the way of a link besides other links.
void Federation::Weaver::cross_link(std::size_t link) {
    const auto from = it_.links_[link].from, to = it_.links_[link].to;
    cross(it_.first_link_ + static_cast<int>(link));
    cross(uplink(from));
    cross(downlink(to));
    const auto pair = cell(from, to);
    for (auto one = std::lower_bound(shared_pairs_.begin(), shared_pairs_.end(), std::pair(pair, 0));
         one != shared_pairs_.end() && one->first == pair; ++one)
        cross(one->second);
}

void Federation::Weaver::cross_links() {
    it_.starts_.reserve(it_.links_.size() + 1);
    end_crossings();
    for (std::size_t i = 0; i < it_.links_.size(); ++i) {
        start_ = it_.crossings_.size();
        cross_link(i);
        end_crossings();
    }
}

// A site that is not routable is in no route, not even at its end.
Graph Federation::Weaver::graph() const {
    Graph graph{.edges = std::vector<std::vector<Edge>>(it_.sites_.size()), .forwards = {}};
    for (const auto &site : it_.sites_)
        graph.forwards.push_back(site.transit && site.routable);
    for (std::size_t i = 0; i < it_.links_.size(); ++i) {
        const auto &link = it_.links_[i];
        if (!it_.site(link.from).routable || !it_.site(link.to).routable) continue;
        double width = limit_of(window(link), link.rtt_ms);
        for (const int resource : it_.resources(link.from, link.to))
            width = std::min(width, it_.capacities_[at(resource)]);
        graph.edges[at(link.from.value)].push_back(
            {.to = link.to.value, .link = static_cast<int>(i), .width = width, .rtt_ms = link.rtt_ms});
    }
    return graph;
}

bool Federation::Weaver::add(const Route &route) {
    auto &way = it_.ways_[cell(SiteId{route.from}, SiteId{route.to})];
    if (way != no_way) return true; // the link of a site that is not routable
    way = static_cast<int>(it_.capacities_.size());
    double least = infinity;
    for (const int link : route.links)
        least = std::min(least, window(it_.links_[at(link)]));
    it_.capacities_.push_back(limit_of(least, route.rtt_ms));
    it_.route_rtts_.push_back(route.rtt_ms);
    start_ = it_.crossings_.size();
    it_.crossings_.push_back(way);
    for (const int link : route.links)
        cross_link(at(link));
    end_crossings();
    return it_.crossings_.size() <= max_crossings;
}

std::optional<Error> Federation::Weaver::add_routes() {
    find_routes(graph(), [this](const Route &route) { return add(route); });
    if (it_.crossings_.size() <= max_crossings) return std::nullopt;
    return Error{Errc::invalid, "the routes over sites with transit cross more than " +
                                    std::to_string(max_crossings) +
                                    " links in all; let fewer sites forward, or give more links"};
}

void Federation::Weaver::reserve() {
    std::vector<double> taken(it_.capacities_.size());
    for (const auto &reserved : it_.network_.reserved)
        for (const int resource : it_.resources(reserved.from, reserved.to))
            taken[at(resource)] += reserved.gbps;
    const auto routes = at(it_.first_link_) + it_.links_.size(); // a route is no wire: others hold its links
    for (std::size_t i = 0; i < routes; ++i) {
        auto &left = it_.capacities_[i];
        if (taken[i] > 0) left = std::max(left - taken[i], least_share_left * left);
    }
}

// The window of a job's own streams is not filled by the streams of others: it comes after reservations.
void Federation::Weaver::limit_by_windows() {
    for (std::size_t i = 0; i < it_.links_.size(); ++i) {
        auto &left = it_.capacities_[at(it_.first_link_) + i];
        left = std::min(left, limit_of(window(it_.links_[i]), it_.links_[i].rtt_ms));
    }
    for (std::size_t i = 0; i < it_.route_rtts_.size(); ++i) {
        const auto link = it_.links_.size() + i;
        auto &left = it_.capacities_[at(it_.first_link_) + link];
        for (auto crossing = it_.starts_[link]; crossing < it_.starts_[link + 1]; ++crossing)
            left = std::min(left, it_.capacities_[at(it_.crossings_[crossing])]);
    }
}

// By their ends; the latest of each.
void Federation::Weaver::sort_origins() {
    auto &origins = it_.network_.origins;
    const auto ends = [](const Origin &origin) { return std::pair(origin.from, origin.to); };
    std::reverse(origins.begin(), origins.end());
    std::stable_sort(origins.begin(), origins.end(),
                     [&](const Origin &a, const Origin &b) { return ends(a) < ends(b); });
    const auto same = [&](const Origin &a, const Origin &b) { return ends(a) == ends(b); };
    origins.erase(std::unique(origins.begin(), origins.end(), same), origins.end());
}

std::optional<Error> Federation::Weaver::run() {
    sort_origins();
    place_links();
    set_capacities();
    list_shared_pairs();
    const auto any = [this](auto is) { return std::any_of(it_.sites_.begin(), it_.sites_.end(), is); };
    const bool gateways =
        any([](const Site &site) { return site.uplink_gbps > 0 || site.downlink_gbps > 0; });
    const bool transit = any([](const Site &site) { return site.transit && site.routable; });
    if (gateways || transit || !shared_pairs_.empty()) cross_links();
    if (transit)
        if (auto trouble = add_routes()) return trouble;
    if (!it_.network_.reserved.empty()) reserve();
    limit_by_windows();
    it_.crossings_.shrink_to_fit();
    it_.capacities_.shrink_to_fit();
    it_.starts_.shrink_to_fit();
    return std::nullopt;
}

Result<Federation> Federation::make(std::vector<Site> sites, std::vector<Link> links, Network network) {
    for (std::size_t i = 0; i < sites.size(); ++i)
        sites[i].id = SiteId{static_cast<int>(i)};
    if (auto trouble = trouble_with(sites)) return std::move(*trouble);
    for (const auto &link : links)
        if (auto trouble = trouble_with(link, sites)) return std::move(*trouble);
    if (auto trouble = trouble_with(network, sites)) return std::move(*trouble);
    Federation federation;
    federation.sites_ = std::move(sites);
    federation.links_ = std::move(links);
    federation.network_ = std::move(network);
    federation.by_name_.resize(federation.sites_.size());
    std::iota(federation.by_name_.begin(), federation.by_name_.end(), 0);
    std::sort(federation.by_name_.begin(), federation.by_name_.end(),
              [&](int a, int b) { return federation.sites_[at(a)].name < federation.sites_[at(b)].name; });
    if (auto trouble = Weaver(federation).run()) return std::move(*trouble);
    return federation;
}

} // namespace spider::federation
