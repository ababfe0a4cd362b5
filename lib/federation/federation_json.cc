// SPDX-License-Identifier: GPL-3.0-or-later
// The federation file: sites, matrices, and what else there is to the network.
#include "federation/federation.h"

#include "model/fields.h"
#include "model/gpu_table.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace spider::federation {

namespace {

using model::Fields;

constexpr int usual_gpus_per_node = 8;
constexpr int max_nodes = 1'000'000;
constexpr int max_gpus_per_node = 1024;
constexpr int max_streams = 65536;
constexpr int max_window = 1 << 30; // TCP's, RFC 7323
constexpr double least_gbps = 1e-6;

std::size_t index(SiteId id) { return static_cast<std::size_t>(id.value); }

GpuType read_gpu(Fields &fields) {
    const auto name = fields.text("gpu");
    auto gpu = model::gpu_type_named(name).value_or(GpuType{.name = name});
    if (gpu.peak_flops == 0 && !(fields.has("peak_flops") && fields.has("memory_bytes")))
        fields.fail("gpu", "unknown type '" + name +
                               "'; give peak_flops and memory_bytes, or one of: " + model::known_gpu_types());
    gpu.peak_flops = fields.real_or("peak_flops", gpu.peak_flops, 1);
    gpu.memory = fields.real_or("memory_bytes", gpu.memory, 1);
    gpu.efficiency = fields.real_or("efficiency", gpu.efficiency, 1e-6);
    gpu.fabric = fields.real_or("fabric", gpu.fabric, 1);
    return gpu;
}

std::vector<FreeLater> read_later(Fields &fields, const NodeClass &nodes, const std::string &place,
                                  std::optional<Error> &trouble) {
    std::vector<FreeLater> later;
    if (!fields.has("later")) return later;
    for (const auto &item : fields.list("later")) {
        Fields one(item, place + ": later[" + std::to_string(later.size()) + "]", trouble);
        const FreeLater next{.after = one.real("after_seconds", 0),
                             .free_nodes = one.integer("free_nodes", 0, nodes.nodes)};
        if (!later.empty() && next.after <= later.back().after)
            one.fail("after_seconds",
                     "expected more than the " + util::number(later.back().after) + " s before it");
        later.push_back(next);
    }
    return later;
}

NodeClass read_class(Fields &fields, const std::string &place, std::optional<Error> &trouble) {
    NodeClass nodes;
    nodes.gpu = read_gpu(fields);
    nodes.nodes = fields.integer("nodes", 0, max_nodes);
    nodes.gpus_per_node = fields.integer("gpus_per_node", 1, max_gpus_per_node);
    nodes.free_nodes = fields.integer_or("free_nodes", nodes.nodes, 0, nodes.nodes);
    nodes.free_gpus_per_node =
        fields.integer_or("free_gpus_per_node", nodes.gpus_per_node, 0, nodes.gpus_per_node);
    nodes.later = read_later(fields, nodes, place, trouble);
    return nodes;
}

// "gpus": as many whole nodes as that makes, and one with the rest.
std::vector<NodeClass> read_total(Fields &fields) {
    const int gpus = fields.integer("gpus", 1, max_nodes);
    const int per_node = fields.integer_or("gpus_per_node", usual_gpus_per_node, 1, max_gpus_per_node);
    const auto gpu = read_gpu(fields);
    if (fields.has("later")) fields.fail("later", "needs nodes and gpus_per_node instead of gpus");
    std::vector<NodeClass> classes;
    for (const auto &[nodes, size] : {std::pair(gpus / per_node, per_node), std::pair(1, gpus % per_node)})
        if (nodes > 0 && size > 0) classes.push_back({gpu, nodes, nodes, size, size});
    return classes;
}

std::vector<NodeClass> read_classes(Fields &fields, const std::string &place, std::optional<Error> &trouble) {
    if (fields.has("classes")) {
        std::vector<NodeClass> classes;
        for (const auto &item : fields.list("classes")) {
            const auto here = place + ": classes[" + std::to_string(classes.size()) + "]";
            Fields one(item, here, trouble);
            classes.push_back(read_class(one, here, trouble));
        }
        return classes;
    }
    if (fields.has("nodes")) return {read_class(fields, place, trouble)};
    if (fields.has("gpus")) return read_total(fields);
    return {};
}

void read_network(Fields &fields, Site &site) {
    site.intra_gbps = fields.real_or("intra_gbps", 0, least_gbps);
    // DT-FM's files give the one-way delay instead.
    site.intra_rtt_ms = fields.real_or("intra_rtt_ms", 2 * fields.real_or("intra_delay_ms", 0, 0), 0);
    site.uplink_gbps = fields.real_or("uplink_gbps", 0, least_gbps);
    site.downlink_gbps = fields.real_or("downlink_gbps", 0, least_gbps);
    site.transit = fields.flag_or("transit", false);
}

Site read_site(const Json &json, std::size_t index, std::optional<Error> &trouble) {
    Site site;
    site.name = model::text_at(json, "name");
    const auto place = "sites[" + std::to_string(index) + "]" + (site.name.empty() ? "" : " " + site.name);
    Fields fields(json, place, trouble);
    if (site.name.empty()) fields.fail("name", "missing; expected a text");
    site.classes = read_classes(fields, place, trouble);
    site.state = fields.choice_or("state", SiteState::active, model::site_state_named);
    site.routable = fields.flag_or("routable", true);
    site.stale = fields.flag_or("stale", false);
    site.seen_at = fields.real_or("seen_at", 0, 0);
    site.trouble = fields.text_or("trouble", "");
    read_network(fields, site);
    return site;
}

// One cell of a matrix; nothing for null. The diagonal is not looked at.
std::optional<double> cell(const Json &matrix, std::size_t row, std::size_t column) {
    const auto &value = matrix[row][column];
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

std::optional<Error> trouble_with(const Json &matrix, const std::string &name, std::size_t sites) {
    const auto size = std::to_string(sites);
    if (!matrix.is_array() || matrix.size() != sites)
        return Error{Errc::invalid, name + ": expected " + size + " rows, one per site"};
    for (std::size_t i = 0; i < sites; ++i) {
        const auto row = name + "[" + std::to_string(i) + "]";
        if (!matrix[i].is_array() || matrix[i].size() != sites)
            return Error{Errc::invalid, row + ": expected " + size + " numbers, one per site"};
        for (const auto &value : matrix[i])
            if (!value.is_number() && !value.is_null())
                return Error{Errc::invalid, row + ": expected numbers or null"};
    }
    return std::nullopt;
}

// "streams" and "window_bytes": a number for every link, or a matrix with a number for each; 0 = not given.
class Detail {
  public:
    Detail(const Json &json, std::string name, int max)
        : json_(model::at(json, name)), name_(std::move(name)), max_(max) {}

    [[nodiscard]] std::optional<Error> trouble(std::size_t sites) const {
        if (json_.is_array())
            if (auto trouble = trouble_with(json_, name_, sites)) return trouble;
        for (std::size_t i = 0; i < (json_.is_array() ? sites : 1); ++i)
            for (std::size_t j = 0; j < (json_.is_array() ? sites : 1); ++j)
                if (const auto &value = cell(i, j); i != j || !json_.is_array())
                    if (!value.is_null() && !is_whole(value)) return wrong(i, j);
        return std::nullopt;
    }
    [[nodiscard]] int value(std::size_t row, std::size_t column) const {
        const auto &value = cell(row, column);
        return value.is_null() ? 0 : static_cast<int>(value.get<double>());
    }

  private:
    [[nodiscard]] const Json &cell(std::size_t row, std::size_t column) const {
        return json_.is_array() ? json_[row][column] : json_;
    }
    [[nodiscard]] bool is_whole(const Json &value) const {
        const double number = value.is_number() ? value.get<double>() : 0;
        return number >= 1 && number <= max_ && number == std::floor(number);
    }
    [[nodiscard]] Error wrong(std::size_t row, std::size_t column) const {
        const auto place =
            json_.is_array() ? "[" + std::to_string(row) + "][" + std::to_string(column) + "]" : "";
        return {Errc::invalid, name_ + place + ": expected a whole number between 1 and " +
                                   std::to_string(max_) + (place.empty() ? ", or a matrix of them" : "")};
    }

    const Json &json_;
    std::string name_;
    int max_;
};

Result<std::vector<Link>> read_links(const Json &json, std::size_t sites) {
    std::vector<Link> links;
    const auto &bandwidth = model::at(json, "bw_gbps");
    const auto &rtt = model::at(json, "rtt_ms");
    if (bandwidth.is_null() || rtt.is_null()) return links; // nothing is known about any link
    for (const auto &[matrix, name] : {std::pair(&bandwidth, "bw_gbps"), std::pair(&rtt, "rtt_ms")})
        if (auto trouble = trouble_with(*matrix, name, sites)) return std::move(*trouble);
    const Detail streams(json, "streams", max_streams), window(json, "window_bytes", max_window);
    for (const auto *detail : {&streams, &window})
        if (auto trouble = detail->trouble(sites)) return std::move(*trouble);
    for (std::size_t i = 0; i < sites; ++i) {
        for (std::size_t j = 0; j < sites; ++j) {
            const auto gbps = cell(bandwidth, i, j);
            const auto ms = cell(rtt, i, j);
            if (i != j && gbps && ms)
                links.push_back({SiteId{static_cast<int>(i)}, SiteId{static_cast<int>(j)}, *gbps, *ms,
                                 streams.value(i, j), window.value(i, j)});
        }
    }
    return links;
}

using Ids = std::map<std::string, SiteId, std::less<>>;

Ids ids_of(const std::vector<Site> &sites) {
    Ids ids;
    for (std::size_t i = 0; i < sites.size(); ++i)
        ids.emplace(sites[i].name, SiteId{static_cast<int>(i)});
    return ids;
}

SiteId read_end(const Json &value, const Ids &ids, std::string_view key, Fields &fields) {
    const auto name = value.is_string() ? value.get<std::string>() : std::string();
    const auto found = ids.find(name);
    if (found != ids.end()) return found->second;
    fields.fail(key,
                value.is_string() ? "no site has the name '" + name + "'" : "expected the name of a site");
    return {};
}

SharedLink read_shared(const Json &json, const std::string &place, const Ids &ids,
                       std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    SharedLink shared{.name = fields.text("name"), .gbps = fields.real("gbps", least_gbps), .pairs = {}};
    for (const auto &pair : fields.list("pairs")) {
        const auto key = "pairs[" + std::to_string(shared.pairs.size()) + "]";
        const bool two = pair.is_array() && pair.size() == 2;
        if (!two) fields.fail(key, "expected the names of two sites");
        if (trouble) break;
        shared.pairs.emplace_back(read_end(pair[0], ids, key, fields), read_end(pair[1], ids, key, fields));
    }
    return shared;
}

Reservation read_reservation(const Json &json, const std::string &place, const Ids &ids,
                             std::optional<Error> &trouble) {
    Fields fields(json, place, trouble);
    return {.from = read_end(model::at(json, "from"), ids, "from", fields),
            .to = read_end(model::at(json, "to"), ids, "to", fields),
            .gbps = fields.real("gbps", 0)};
}

// Every item of an optional list, with its place.
template <class T, class Read>
std::vector<T> read_all(Fields &fields, const std::string &key, Read read) {
    std::vector<T> all;
    if (!fields.has(key)) return all;
    for (const auto &item : fields.list(key)) {
        if (fields.failed()) break;
        all.push_back(read(item, key + "[" + std::to_string(all.size()) + "]"));
    }
    return all;
}

// Who measured a link, and when.
std::vector<Origin> read_measured(Fields &fields, const std::vector<Site> &sites,
                                  const std::vector<Link> &links, std::optional<Error> &trouble) {
    if (!fields.has("measured")) return {};
    const auto ids = ids_of(sites);
    std::set<std::pair<SiteId, SiteId>> linked;
    for (const auto &link : links)
        linked.emplace(link.from, link.to);
    return read_all<Origin>(fields, "measured", [&](const Json &item, const std::string &place) {
        Fields entry(item, place, trouble);
        Origin origin{.from = read_end(model::at(item, "from"), ids, "from", entry),
                      .to = read_end(model::at(item, "to"), ids, "to", entry),
                      .source = entry.text("source"),
                      .measured_at = entry.real("at", 0),
                      .usual_gbps = entry.real_or("usual_gbps", 0, 0)};
        if (!linked.contains({origin.from, origin.to}))
            entry.fail("to", "there is no such link in bw_gbps and rtt_ms");
        return origin;
    });
}

Network read_network(Fields &fields, const std::vector<Site> &sites, const std::vector<Link> &links,
                     std::optional<Error> &trouble) {
    const auto ids = ids_of(sites);
    return {.shared = read_all<SharedLink>(fields, "shared",
                                           [&](const Json &item, const std::string &place) {
                                               return read_shared(item, place, ids, trouble);
                                           }),
            .reserved = read_all<Reservation>(fields, "reserved",
                                              [&](const Json &item, const std::string &place) {
                                                  return read_reservation(item, place, ids, trouble);
                                              }),
            .origins = read_measured(fields, sites, links, trouble)};
}

// As a number where all links agree, else as a matrix; null = not given.
Json detail_json(const Federation &federation, int Link::*detail) {
    const auto &links = federation.links();
    if (links.empty()) return {};
    const auto json = [](int value) { return value > 0 ? Json(value) : Json(); };
    const bool alike = std::all_of(links.begin(), links.end(),
                                   [&](const Link &link) { return link.*detail == links.front().*detail; });
    if (alike) return json(links.front().*detail);
    const auto sites = federation.sites().size();
    Json matrix(sites, Json(sites, Json()));
    for (const auto &link : links)
        matrix[index(link.from)][index(link.to)] = json(link.*detail);
    return matrix;
}

void add_network(const Federation &federation, Json &json) {
    const auto name = [&](SiteId id) { return federation.site(id).name; };
    for (const auto &[key, detail] :
         {std::pair("streams", &Link::streams), std::pair("window_bytes", &Link::window_bytes)})
        if (auto value = detail_json(federation, detail); !value.is_null()) json[key] = std::move(value);
    for (const auto &origin : federation.network().origins)
        json["measured"].push_back({{"from", name(origin.from)},
                                    {"to", name(origin.to)},
                                    {"source", origin.source},
                                    {"at", origin.measured_at},
                                    {"usual_gbps", origin.usual_gbps}});
    for (const auto &shared : federation.network().shared) {
        Json pairs = Json::array();
        for (const auto &[from, to] : shared.pairs)
            pairs.push_back(Json::array({name(from), name(to)}));
        json["shared"].push_back({{"name", shared.name}, {"gbps", shared.gbps}, {"pairs", std::move(pairs)}});
    }
    for (const auto &reserved : federation.network().reserved)
        json["reserved"].push_back(
            {{"from", name(reserved.from)}, {"to", name(reserved.to)}, {"gbps", reserved.gbps}});
}

} // namespace

Result<Federation> read_federation(const Json &json) {
    std::optional<Error> trouble;
    Fields fields(json, "federation", trouble);
    std::vector<Site> sites;
    const auto &list = fields.list("sites");
    if (list.size() > max_sites) fields.fail("sites", "more than " + std::to_string(max_sites));
    for (const auto &item : list) {
        if (trouble) return std::move(*trouble);
        sites.push_back(read_site(item, sites.size(), trouble));
    }
    if (trouble) return std::move(*trouble);
    auto links = read_links(json, sites.size());
    if (!links) return std::move(links).error();
    auto network = read_network(fields, sites, *links, trouble);
    if (trouble) return std::move(*trouble);
    return Federation::make(std::move(sites), std::move(*links), std::move(network));
}

// As measured: reading it again applies windows, routes and reservations again.
Json to_json(const Federation &federation) {
    const auto count = federation.sites().size();
    Json sites = Json::array(), gbps(count, Json(count, Json())), ms = gbps;
    for (const auto &site : federation.sites())
        sites.push_back(model::to_json(site));
    for (const auto &link : federation.links()) {
        gbps[index(link.from)][index(link.to)] = link.bandwidth_gbps;
        ms[index(link.from)][index(link.to)] = link.rtt_ms;
    }
    Json json{{"sites", std::move(sites)}, {"bw_gbps", std::move(gbps)}, {"rtt_ms", std::move(ms)}};
    add_network(federation, json);
    return json;
}

} // namespace spider::federation
