// SPDX-License-Identifier: GPL-3.0-or-later
// The JSON forms of jobs and sites.
#include "model/model_file.h"

#include <algorithm>

namespace spider::model {

namespace {

Json fixed(const std::optional<int> &value) { return value ? Json(*value) : Json(); }

std::optional<int> read_fixed(Fields &fields, std::string_view key) {
    if (!fields.has(key)) return std::nullopt;
    return fields.integer(key, 1);
}

Json depth_json(int depth) {
    if (depth == depth_of_trainer) return {};
    return depth == depth_stages ? Json("stages") : depth == depth_fitted ? Json("fitted") : Json(depth);
}

int read_depth(Fields &fields, const Json &value) {
    if (value == "stages") return depth_stages;
    if (value == "fitted") return depth_fitted;
    return fields.integer_or("depth", depth_of_trainer, 1);
}

Limits read_limits(const Json &json, std::optional<Error> &trouble) {
    Fields fields(json, "job: limits", trouble);
    return {.max_nodes = fields.integer_or("max_nodes", 0, 0),
            .max_gpus_per_node = fields.integer_or("max_gpus_per_node", 0, 0),
            .max_tasks = fields.integer_or("max_tasks", 0, 0),
            .max_tasks_per_node = fields.integer_or("max_tasks_per_node", 0, 0)};
}

Json known(double value) { return value > 0 ? Json(value) : Json(); }

Json later_json(const std::vector<FreeLater> &later) {
    Json json; // null = unknown
    for (const auto &[after, free_nodes] : later)
        json.push_back({{"after_seconds", after}, {"free_nodes", free_nodes}});
    return json;
}

Json class_json(const NodeClass &nodes) {
    return {{"gpu", nodes.gpu.name},
            {"nodes", nodes.nodes},
            {"free_nodes", nodes.free_nodes},
            {"gpus_per_node", nodes.gpus_per_node},
            {"free_gpus_per_node", nodes.free_gpus_per_node},
            {"later", later_json(nodes.later)},
            {"peak_flops", nodes.gpu.peak_flops},
            {"efficiency", nodes.gpu.efficiency},
            {"memory_bytes", nodes.gpu.memory},
            {"fabric", nodes.gpu.fabric}};
}

} // namespace

Json to_json(const JobSpec &spec) {
    return {{"model_name", spec.model_name},
            {"model", to_json(spec.model)},
            {"sequence", spec.sequence},
            {"global_batch", spec.global_batch},
            {"micro_batch", spec.micro_batch},
            {"iterations", spec.iterations},
            {"trainer", name(spec.trainer)},
            {"precision", name(spec.precision)},
            {"recompute", spec.recompute_free ? "auto" : name(spec.recompute)},
            {"objective", name(spec.objective)},
            {"on_failure", name(spec.on_failure)},
            {"attempts", spec.attempts},
            {"sync", spec.sync},
            {"sites", spec.sites},
            {"tp", fixed(spec.tp)},
            {"pp", fixed(spec.pp)},
            {"dp", fixed(spec.dp)},
            {"limits",
             {{"max_nodes", spec.limits.max_nodes},
              {"max_gpus_per_node", spec.limits.max_gpus_per_node},
              {"max_tasks", spec.limits.max_tasks},
              {"max_tasks_per_node", spec.limits.max_tasks_per_node}}},
            {"home", spec.home},
            {"depth", depth_json(spec.depth)},
            {"sends", spec.sends ? Json(name(*spec.sends)) : Json()},
            {"even_layers", spec.even_layers ? Json(*spec.even_layers) : Json()},
            {"launcher", name(spec.launcher)},
            {"stage", spec.travelling},
            {"single_gpu_view", spec.single_gpu_view},
            {"check_links", name(spec.check_links)},
            {"check_factor", spec.check_factor}};
}

Result<JobSpec> job_spec_from_json(const Json &json) {
    std::optional<Error> trouble;
    Fields fields(json, "job", trouble);
    JobSpec spec;
    spec.model_name = fields.text_or("model_name", "");
    spec.model = read_model_spec(fields.object("model"), "job: model", trouble);
    spec.sequence = fields.integer("sequence", 0);
    spec.global_batch = fields.integer("global_batch", 0);
    spec.micro_batch = fields.integer_or("micro_batch", 1, 1);
    spec.iterations = fields.integer_or("iterations", 0, 0);
    spec.trainer = fields.choice_or("trainer", spec.trainer, trainer_named);
    spec.precision = fields.choice_or("precision", spec.precision, precision_named);
    spec.recompute_free = fields.text_or("recompute", "none") == "auto";
    if (!spec.recompute_free) spec.recompute = fields.choice_or("recompute", spec.recompute, recompute_named);
    spec.objective = fields.choice_or("objective", spec.objective, objective_named);
    spec.on_failure = fields.choice_or("on_failure", spec.on_failure, on_failure_named);
    spec.attempts = fields.integer_or("attempts", spec.attempts, 1);
    spec.check_links = fields.choice_or("check_links", spec.check_links, link_checking_named);
    spec.check_factor = fields.real_or("check_factor", spec.check_factor, 1);
    spec.sync = fields.text_or("sync", spec.sync);
    spec.sites = fields.texts_or_none("sites");
    spec.tp = read_fixed(fields, "tp");
    spec.pp = read_fixed(fields, "pp");
    spec.dp = read_fixed(fields, "dp");
    if (fields.has("limits")) spec.limits = read_limits(fields.object("limits"), trouble);
    spec.home = fields.text_or("home", "");
    spec.depth = read_depth(fields, at(json, "depth"));
    if (fields.has("sends")) spec.sends = fields.choice_or("sends", Sends::async, sends_named);
    if (fields.has("even_layers")) spec.even_layers = fields.flag_or("even_layers", false);
    spec.launcher = fields.choice_or("launcher", spec.launcher, launcher_named);
    spec.travelling = fields.texts_or_none("stage");
    spec.single_gpu_view = fields.flag_or("single_gpu_view", false);
    if (trouble) return std::move(*trouble);
    return spec;
}

Json to_json(const Site &site) {
    int nodes = 0, free_nodes = 0, gpus = 0, free_gpus = 0;
    Json classes = Json::array();
    std::string gpu;
    for (const auto &one : site.classes) {
        nodes += one.nodes;
        free_nodes += one.free_nodes;
        gpus += one.nodes * one.gpus_per_node;
        free_gpus += one.free_nodes * one.free_gpus_per_node;
        if (gpu.find(one.gpu.name) == std::string::npos) gpu += (gpu.empty() ? "" : ",") + one.gpu.name;
        classes.push_back(class_json(one));
    }
    return {{"name", site.name},
            {"state", name(site.state)},
            {"nodes", nodes},
            {"free_nodes", free_nodes},
            {"gpus", gpus},
            {"free_gpus", free_gpus},
            {"gpu", gpu},
            {"seen_at", site.seen_at},
            {"stale", site.stale},
            {"trouble", site.trouble},
            {"routable", site.routable},
            {"transit", site.transit},
            {"intra_gbps", known(site.intra_gbps)},
            {"intra_rtt_ms", known(site.intra_rtt_ms)},
            {"uplink_gbps", known(site.uplink_gbps)},
            {"downlink_gbps", known(site.downlink_gbps)},
            {"classes", std::move(classes)}};
}

} // namespace spider::model
