// SPDX-License-Identifier: GPL-3.0-or-later
// The federation file: sites and two matrices.
#include "federation/federation.h"

#include "model/fields.h"
#include "model/gpu_table.h"

namespace spider::federation {

namespace {

using model::Fields;

constexpr int usual_gpus_per_node = 8;
constexpr int max_nodes = 1'000'000;
constexpr int max_gpus_per_node = 1024;
constexpr std::size_t max_sites = 4096; // the matrices are sites x sites

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

NodeClass read_class(Fields &fields) {
    NodeClass nodes;
    nodes.gpu = read_gpu(fields);
    nodes.nodes = fields.integer("nodes", 0, max_nodes);
    nodes.gpus_per_node = fields.integer("gpus_per_node", 1, max_gpus_per_node);
    nodes.free_nodes = fields.integer_or("free_nodes", nodes.nodes, 0, nodes.nodes);
    nodes.free_gpus_per_node =
        fields.integer_or("free_gpus_per_node", nodes.gpus_per_node, 0, nodes.gpus_per_node);
    return nodes;
}

// "gpus": as many whole nodes as that makes, and one with the rest.
std::vector<NodeClass> read_total(Fields &fields) {
    const int gpus = fields.integer("gpus", 1, max_nodes);
    const int per_node = fields.integer_or("gpus_per_node", usual_gpus_per_node, 1, max_gpus_per_node);
    const auto gpu = read_gpu(fields);
    std::vector<NodeClass> classes;
    for (const auto &[nodes, size] : {std::pair(gpus / per_node, per_node), std::pair(1, gpus % per_node)})
        if (nodes > 0 && size > 0) classes.push_back({gpu, nodes, nodes, size, size});
    return classes;
}

std::vector<NodeClass> read_classes(Fields &fields, const std::string &place, std::optional<Error> &trouble) {
    if (fields.has("classes")) {
        std::vector<NodeClass> classes;
        for (const auto &item : fields.list("classes")) {
            Fields one(item, place + ": classes", trouble);
            classes.push_back(read_class(one));
        }
        return classes;
    }
    if (fields.has("nodes")) return {read_class(fields)};
    if (fields.has("gpus")) return read_total(fields);
    return {};
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

Result<std::vector<Link>> read_links(const Json &json, std::size_t sites) {
    std::vector<Link> links;
    const auto &bandwidth = model::at(json, "bw_gbps");
    const auto &rtt = model::at(json, "rtt_ms");
    if (bandwidth.is_null() || rtt.is_null()) return links; // nothing is known about any link
    for (const auto &[matrix, name] : {std::pair(&bandwidth, "bw_gbps"), std::pair(&rtt, "rtt_ms")})
        if (auto trouble = trouble_with(*matrix, name, sites)) return std::move(*trouble);
    for (std::size_t i = 0; i < sites; ++i) {
        for (std::size_t j = 0; j < sites; ++j) {
            const auto gbps = cell(bandwidth, i, j);
            const auto ms = cell(rtt, i, j);
            if (i != j && gbps && ms)
                links.push_back({SiteId{static_cast<int>(i)}, SiteId{static_cast<int>(j)}, *gbps, *ms});
        }
    }
    return links;
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
    const auto links = read_links(json, sites.size());
    if (!links) return links.error();
    return Federation::make(std::move(sites), *links);
}

Json to_json(const Federation &federation) {
    Json sites = Json::array(), bandwidth = Json::array(), rtt = Json::array();
    for (const auto &from : federation.sites()) {
        sites.push_back(model::to_json(from));
        Json gbps = Json::array(), ms = Json::array();
        for (const auto &to : federation.sites()) {
            const auto link = federation.link(from.id, to.id);
            gbps.push_back(link ? Json(link->bandwidth_gbps) : Json());
            ms.push_back(link ? Json(link->rtt_ms) : Json());
        }
        bandwidth.push_back(std::move(gbps));
        rtt.push_back(std::move(ms));
    }
    return {{"sites", std::move(sites)}, {"bw_gbps", std::move(bandwidth)}, {"rtt_ms", std::move(rtt)}};
}

} // namespace spider::federation
