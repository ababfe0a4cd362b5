// SPDX-License-Identifier: GPL-3.0-or-later
#include "wire/messages.h"

#include "wire/fields.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace spider::wire {
namespace {

Json names_json(const Names &names) {
    auto json = Json::object();
    for (const auto &[name, value] : names)
        json[name] = value;
    return json;
}

Json pairs_json(const Pairs &pairs) {
    auto json = Json::array();
    for (const auto &[name, value] : pairs)
        json.push_back(Json::array({name, value}));
    return json;
}

template <class T, class Write>
Json list_json(const std::vector<T> &values, Write writer) {
    auto json = Json::array();
    for (const auto &value : values)
        json.push_back(writer(value));
    return json;
}

Json placed_json(const PlacedPart &part) { return Json{{"site", part.site}, {"job", part.job}}; }

// Both become text of a shell script.
Result<Archive> read_archive(const Json &json) {
    constexpr std::string_view hexadecimal = "0123456789abcdef";
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n";
    Archive archive;
    Fields fields(json);
    fields.read("base64", archive.base64).read("sha256", archive.sha256);
    auto read = fields.done(archive);
    if (!read || (read->base64.empty() && read->sha256.empty())) return read;
    if (read->base64.empty() || read->base64.find_first_not_of(digits) != std::string::npos)
        return Error{Errc::invalid, "base64: expected base64"};
    if (read->sha256.size() != 64 || read->sha256.find_first_not_of(hexadecimal) != std::string::npos)
        return Error{Errc::invalid, "sha256: expected 64 hexadecimal digits"};
    return read;
}

Result<PlacedPart> read_placed(const Json &json) {
    PlacedPart part;
    return Fields(json).need("site").need("job").read("site", part.site).read("job", part.job).done(part);
}

Json part_json(const PartView &part) {
    return Json{{"site", part.site},        {"job", part.job},     {"state", part.state},
                {"nodes", part.nodes},      {"gpus", part.gpus},   {"stages", part.stages},
                {"output", part.output},    {"error", part.error}, {"expected_start", part.expected_start},
                {"restarts", part.restarts}};
}

Result<PartView> read_part(const Json &json) {
    PartView part;
    Fields fields(json);
    fields.need("site").read("site", part.site).read("job", part.job).read("state", part.state);
    fields.read("nodes", part.nodes).read("gpus", part.gpus).read("stages", part.stages);
    fields.read("output", part.output).read("error", part.error);
    return fields.read("expected_start", part.expected_start).read("restarts", part.restarts).done(part);
}

Json history_json(const HistoryLine &line) {
    return Json{{"at", line.at}, {"state", line.state}, {"why", line.why}};
}

Result<HistoryLine> read_history(const Json &json) {
    HistoryLine line;
    return Fields(json).read("at", line.at).read("state", line.state).read("why", line.why).done(line);
}

Json site_json(const SiteView &site) {
    return Json{{"name", site.name},   {"state", site.state},
                {"nodes", site.nodes}, {"free_nodes", site.free_nodes},
                {"gpus", site.gpus},   {"free_gpus", site.free_gpus},
                {"gpu", site.gpu},     {"seen_at", site.seen_at},
                {"stale", site.stale}, {"trouble", site.trouble},
                {"api", site.api}};
}

Result<SiteView> read_site(const Json &json) {
    SiteView site;
    Fields fields(json);
    fields.need("name").read("name", site.name).read("state", site.state).read("nodes", site.nodes);
    fields.read("free_nodes", site.free_nodes).read("gpus", site.gpus).read("free_gpus", site.free_gpus);
    fields.read("gpu", site.gpu).read("seen_at", site.seen_at).read("stale", site.stale);
    return fields.read("trouble", site.trouble).read("api", site.api).done(site);
}

Json link_json(const LinkView &link) {
    return Json{{"from", link.from},
                {"to", link.to},
                {"bandwidth_gbps", link.bandwidth_gbps},
                {"rtt_ms", link.rtt_ms}};
}

Result<LinkView> read_link(const Json &json) {
    LinkView link;
    Fields fields(json);
    fields.need("from").need("to").read("from", link.from).read("to", link.to);
    return fields.read("bandwidth_gbps", link.bandwidth_gbps).read("rtt_ms", link.rtt_ms).done(link);
}

struct Status {
    Errc code;
    int http;
};

// The first row of a status is what an answer with it means.
constexpr std::array statuses{
    Status{Errc::invalid, 400},  Status{Errc::denied, 403},  Status{Errc::not_found, 404},
    Status{Errc::refused, 409},  Status{Errc::system, 500},  Status{Errc::unreachable, 502},
    Status{Errc::protocol, 502}, Status{Errc::timeout, 504},
};

} // namespace

Json to_json(const PlanRequest &message) {
    return Json{{"spec", model::to_json(message.spec)},
                {"options", names_json(message.options)},
                {"cwd", message.cwd},
                {"test_only", message.test_only}};
}

template <>
Result<PlanRequest> from_json(const Json &json) {
    PlanRequest message;
    Fields fields(json);
    fields.need("spec").object("spec", message.spec, model::job_spec_from_json);
    fields.read("options", message.options).need("cwd").read("cwd", message.cwd);
    return fields.read("test_only", message.test_only).done(std::move(message));
}

Json to_json(const PlanReply &message) {
    return Json{{"id", message.id},
                {"plan", model::to_json(message.plan)},
                {"line", message.line},
                {"options", pairs_json(message.options)},
                {"env", pairs_json(message.environment)}};
}

template <>
Result<PlanReply> from_json(const Json &json) {
    PlanReply message;
    Fields fields(json);
    fields.need("id").read("id", message.id).need("plan").object("plan", message.plan, model::plan_from_json);
    fields.read("line", message.line).read("options", message.options);
    return fields.read("env", message.environment).done(std::move(message));
}

Json to_json(const PlaceRequest &message) {
    return Json{{"home_job", message.home_job},
                {"script", message.script},
                {"args", message.arguments},
                {"environment", names_json(message.environment)},
                {"umask", message.umask},
                {"stage", Json{{"base64", message.stage.base64}, {"sha256", message.stage.sha256}}},
                {"spank_options", names_json(message.spank_options)}};
}

template <>
Result<PlaceRequest> from_json(const Json &json) {
    PlaceRequest message;
    Fields fields(json);
    fields.need("home_job").read("home_job", message.home_job).need("script").read("script", message.script);
    fields.read("args", message.arguments).read("environment", message.environment);
    fields.object("stage", message.stage, read_archive).read("spank_options", message.spank_options);
    auto result = fields.read("umask", message.umask).done(std::move(message));
    if (!result) return result;
    if (result->home_job <= 0) return Error{Errc::invalid, "home_job: expected the id of a job"};
    if (result->umask < 0 || result->umask > 0777) return Error{Errc::invalid, "umask: out of range"};
    return result;
}

Json to_json(const PlaceReply &message) { return Json{{"parts", list_json(message.parts, placed_json)}}; }

template <>
Result<PlaceReply> from_json(const Json &json) {
    PlaceReply message;
    Fields fields(json);
    return fields.need("parts").list("parts", message.parts, read_placed).done(std::move(message));
}

Json to_json(const JobView &message) {
    Json json{{"id", message.id},
              {"user", message.user},
              {"name", message.name},
              {"state", message.state},
              {"reason", message.reason},
              {"attempt", message.attempt},
              {"attempts", message.attempts},
              {"on_failure", message.on_failure},
              {"idle_gpu_seconds", message.idle_gpu_seconds},
              {"turns", message.turns},
              {"submitted", message.submitted},
              {"line", message.line}};
    if (message.plan) json["plan"] = model::to_json(*message.plan);
    json["parts"] = list_json(message.parts, part_json);
    json["history"] = list_json(message.history, history_json);
    return json;
}

template <>
Result<JobView> from_json(const Json &json) {
    JobView message;
    Fields fields(json);
    fields.need("id").read("id", message.id).read("user", message.user).read("name", message.name);
    fields.need("state").read("state", message.state).read("reason", message.reason);
    fields.read("attempt", message.attempt).read("submitted", message.submitted).read("line", message.line);
    fields.read("attempts", message.attempts).read("on_failure", message.on_failure);
    fields.read("idle_gpu_seconds", message.idle_gpu_seconds).read("turns", message.turns);
    fields.object("plan", message.plan, model::plan_from_json).list("parts", message.parts, read_part);
    return fields.list("history", message.history, read_history).done(std::move(message));
}

Json to_json(const JobList &message) {
    return Json{{"jobs", list_json(message.jobs, [](const JobView &job) { return to_json(job); })}};
}

template <>
Result<JobList> from_json(const Json &json) {
    JobList message;
    Fields fields(json);
    return fields.need("jobs").list("jobs", message.jobs, from_json<JobView>).done(std::move(message));
}

Json to_json(const SitesView &message) {
    return Json{{"home", message.home},
                {"sites", list_json(message.sites, site_json)},
                {"links", list_json(message.links, link_json)}};
}

template <>
Result<SitesView> from_json(const Json &json) {
    SitesView message;
    Fields fields(json);
    fields.read("home", message.home).need("sites").list("sites", message.sites, read_site);
    return fields.list("links", message.links, read_link).done(std::move(message));
}

Json error_json(std::string_view what) { return Json{{"error", std::string(what)}}; }

int http_status(Errc code) {
    const auto *row =
        std::find_if(statuses.begin(), statuses.end(), [&](const Status &s) { return s.code == code; });
    return row == statuses.end() ? 500 : row->http;
}

Errc errc_of_status(int status) {
    const auto *row =
        std::find_if(statuses.begin(), statuses.end(), [&](const Status &s) { return s.http == status; });
    return row == statuses.end() ? Errc::protocol : row->code;
}

bool valid_job_id(std::string_view text) {
    const auto dash = text.rfind('-');
    if (dash == std::string_view::npos || dash == 0 || dash + 1 == text.size() || text.size() > 128)
        return false;
    const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    const auto plain = [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    };
    return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(dash) + 1, text.end(), digit) &&
           std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(dash), plain);
}

} // namespace spider::wire
