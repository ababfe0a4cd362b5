// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/routes.h"

#include "broker/metrics.h"
#include "config.h"
#include "util/text.h"

#include <algorithm>
#include <pwd.h>
#include <vector>

namespace spider::broker {
namespace {

using Send = std::function<void(ApiReply)>;

Result<Caller> caller_of(const Broker &broker, const ApiRequest &request) {
    passwd entry{};
    passwd *found = nullptr;
    std::vector<char> buffer(65536);
    if (::getpwuid_r(request.uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
        return Error{Errc::denied,
                     "user " + std::to_string(request.uid) + " has no name on the broker's host"};
    const auto &operators = broker.config().operators;
    const std::string name = entry.pw_name;
    return Caller{request.uid, name, std::find(operators.begin(), operators.end(), name) != operators.end()};
}

ApiReply reply_of(const Result<Json> &result) {
    if (result) return {200, model::print_json(*result)};
    return {wire::http_status(result.error().code), model::print_json(wire::error_json(result.error().what))};
}

struct Route {
    std::string_view method;
    std::string_view pattern; // '*' stands for the id of a job
    void (*run)(Broker &, const Caller &, const std::string &id, const ApiRequest &, Send);
};

const Route routes[] = {
    {"POST", "v1/plans",
     [](Broker &broker, const Caller &caller, const std::string &, const ApiRequest &request, Send send) {
         auto body = wire::parse<wire::PlanRequest>(request.body);
         if (!body) return send(reply_of(std::move(body).error()));
         broker.plan(caller, *body, [send](Result<Json> result) { send(reply_of(result)); });
     }},
    {"POST", "v1/jobs/*/place",
     [](Broker &broker, const Caller &caller, const std::string &id, const ApiRequest &request, Send send) {
         auto body = wire::parse<wire::PlaceRequest>(request.body);
         if (!body) return send(reply_of(std::move(body).error()));
         broker.place(caller, id, std::move(*body), [send](Result<Json> result) { send(reply_of(result)); });
     }},
    {"POST", "v1/jobs/*/drop",
     [](Broker &broker, const Caller &caller, const std::string &id, const ApiRequest &, Send send) {
         send(reply_of(broker.drop(caller, id)));
     }},
    {"GET", "v1/jobs",
     [](Broker &broker, const Caller &caller, const std::string &, const ApiRequest &request, Send send) {
         send(reply_of(broker.list(caller, request.all)));
     }},
    {"GET", "v1/jobs/*",
     [](Broker &broker, const Caller &caller, const std::string &id, const ApiRequest &, Send send) {
         send(reply_of(broker.show(caller, id)));
     }},
    {"DELETE", "v1/jobs/*",
     [](Broker &broker, const Caller &caller, const std::string &id, const ApiRequest &, Send send) {
         send(reply_of(broker.cancel(caller, id)));
     }},
    {"GET", "v1/sites",
     [](Broker &broker, const Caller &, const std::string &, const ApiRequest &, Send send) {
         send(reply_of(broker.sites()));
     }},
    {"GET", "v1/links",
     [](Broker &broker, const Caller &, const std::string &, const ApiRequest &, Send send) {
         send(reply_of(broker.links()));
     }},
    {"POST", "v1/links",
     [](Broker &broker, const Caller &caller, const std::string &, const ApiRequest &request, Send send) {
         auto body = wire::parse<wire::ImportRequest>(request.body);
         send(reply_of(body ? broker.import_links(caller, *body) : std::move(body).error()));
     }},
    {"POST", "v1/links/measure",
     [](Broker &broker, const Caller &caller, const std::string &, const ApiRequest &request, Send send) {
         auto body = wire::parse<wire::MeasureRequest>(request.body);
         if (!body) return send(reply_of(std::move(body).error()));
         broker.measure_link(caller, *body, [send](Result<Json> result) { send(reply_of(result)); });
     }},
    {"GET", "v1/version",
     [](Broker &, const Caller &, const std::string &, const ApiRequest &, Send send) {
         send(reply_of(Json{{"version", PACKAGE_VERSION}}));
     }},
    {"GET", "healthz",
     [](Broker &, const Caller &, const std::string &, const ApiRequest &, Send send) {
         send({204, ""});
     }},
    {"GET", "readyz",
     [](Broker &broker, const Caller &, const std::string &, const ApiRequest &, Send send) {
         const auto ready = broker.ready();
         send(ready ? ApiReply{204, ""}
                    : ApiReply{503, model::print_json(wire::error_json(ready.error().what))});
     }},
    {"GET", "metrics",
     [](Broker &broker, const Caller &, const std::string &, const ApiRequest &, Send send) {
         send({200, to_text(broker.metrics()), metrics_type});
     }},
};

// The id in the place of '*', "" where there is none; nothing when the path is another.
std::optional<std::string> match(std::string_view pattern, const std::vector<std::string> &path) {
    const auto words = util::split(pattern, '/');
    if (words.size() != path.size()) return std::nullopt;
    std::string id;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "*" && wire::valid_job_id(path[i]))
            id = path[i];
        else if (words[i] != path[i])
            return std::nullopt;
    }
    return id;
}

} // namespace

void route(Broker &broker, const ApiRequest &request, std::function<void(ApiReply)> respond) {
    auto caller = caller_of(broker, request);
    if (!caller) return respond(reply_of(std::move(caller).error()));
    const auto path = util::split(
        std::string_view(request.path).substr(std::min<std::size_t>(1, request.path.size())), '/');
    bool known_path = false;
    for (const auto &row : routes) {
        const auto id = match(row.pattern, path);
        if (!id) continue;
        known_path = true;
        if (row.method == request.method) return row.run(broker, *caller, *id, request, std::move(respond));
    }
    const std::string why =
        known_path ? request.method + " does not work on " + request.path : "unknown path " + request.path;
    respond({known_path ? 405 : 404, model::print_json(wire::error_json(why))});
}

} // namespace spider::broker
