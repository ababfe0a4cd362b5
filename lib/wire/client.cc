// SPDX-License-Identifier: GPL-3.0-or-later
#include "wire/client.h"

#include "util/text.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <curl/curl.h>
#include <memory>

namespace spider::wire {
namespace {

constexpr Seconds connect_within = 1;
constexpr std::size_t largest_answer = 64u << 20;

struct Free {
    void operator()(CURL *handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist *list) const { curl_slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, Free>;
using Headers = std::unique_ptr<curl_slist, Free>;

std::size_t keep(char *data, std::size_t, std::size_t size, void *answer) {
    auto &text = *static_cast<std::string *>(answer);
    if (text.size() + size > largest_answer) return 0;
    text.append(data, size);
    return size;
}

Handle open_handle(const std::string &socket, Seconds deadline, std::string &answer) {
    static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    Handle handle(ready ? curl_easy_init() : nullptr);
    if (!handle) return handle;
    auto *curl = handle.get();
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); // http_proxy of the user's environment is not for us
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(1000 * std::min(connect_within, deadline)));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(1000 * deadline)));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    return handle;
}

Error no_answer(CURL *curl, CURLcode code, const std::string &socket, const std::string &what,
                Seconds deadline) {
    long why = 0;
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &why);
    curl_off_t connected = 0;
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected);
    if (code == CURLE_COULDNT_CONNECT || (code == CURLE_OPERATION_TIMEDOUT && connected == 0))
        return {Errc::unreachable,
                "broker: cannot reach " + socket + ": " +
                    (why != 0 ? std::strerror(static_cast<int>(why)) : curl_easy_strerror(code)) +
                    "; is spiderflowd running? (systemctl status spiderflowd)"};
    if (code == CURLE_OPERATION_TIMEDOUT)
        return {Errc::timeout, "broker: no answer to " + what + " within " + util::number(deadline) +
                                   " s; see its log (journalctl -u spiderflowd)"};
    return {Errc::protocol, "broker: " + what + ": " + curl_easy_strerror(code) +
                                "; see its log (journalctl -u spiderflowd)"};
}

std::string one_line(std::string text) {
    for (auto &c : text)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return text;
}

Error refusal(int status, const std::string &body, const std::string &what) {
    const auto json = model::parse_json(body);
    const auto said = json ? model::text_at(*json, "error") : std::string();
    if (!said.empty()) return {errc_of_status(status), one_line(said)};
    return {status / 100 == 4 ? errc_of_status(status) : Errc::protocol,
            "broker: " + what + ": HTTP " + std::to_string(status)};
}

template <class T>
Result<T> read(Result<std::string> body, const std::string &what) {
    if (!body) return std::move(body).error();
    auto message = parse<T>(*body);
    if (!message) return Error{Errc::protocol, "broker: " + what + ": " + message.error().what};
    return message;
}

Result<std::string> job_path(const std::string &job) {
    if (!valid_job_id(job))
        return Error{Errc::invalid, "'" + one_line(job) +
                                        "' is no id of a federated job (SITE-NUMBER, see spiderflow status)"};
    return "/v1/jobs/" + job;
}

} // namespace

std::string socket_path(const std::string &given) {
    if (!given.empty()) return given;
    const char *fallback = std::getenv("SPIDERFLOW_SOCKET");
    return fallback != nullptr && *fallback != '\0' ? fallback : SF_RUNDIR "/spiderflowd.sock";
}

Result<std::string> Client::call(const char *method, const std::string &path, const std::string &body,
                                 Seconds deadline) {
    std::string answer;
    const auto handle = open_handle(socket_, deadline, answer);
    if (!handle) return Error{Errc::system, "broker: libcurl does not start"};
    auto *curl = handle.get();
    const auto what = std::string(method) + " " + path;
    curl_easy_setopt(curl, CURLOPT_URL, ("http://spiderflowd" + path).c_str());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    Headers headers(curl_slist_append(nullptr, "Content-Type: application/json"));
    curl_slist_append(headers.get(), "Expect:"); // no pause before a large script
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    if (std::string_view(method) == "POST") {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    }
    const auto code = curl_easy_perform(curl);
    if (code != CURLE_OK) return no_answer(curl, code, socket_, what, deadline);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2) return refusal(static_cast<int>(status), answer, what);
    return answer;
}

Result<PlanReply> Client::plan(const PlanRequest &request, Seconds deadline) {
    return read<PlanReply>(call("POST", "/v1/plans", model::print_json(to_json(request)), deadline), "plan");
}

Result<PlaceReply> Client::place(const std::string &job, const PlaceRequest &request, Seconds deadline) {
    const auto path = job_path(job);
    if (!path) return path.error();
    return read<PlaceReply>(call("POST", *path + "/place", model::print_json(to_json(request)), deadline),
                            "place");
}

Result<void> Client::drop(const std::string &job, Seconds deadline) {
    const auto path = job_path(job);
    if (!path) return path.error();
    const auto reply = call("POST", *path + "/drop", "{}", deadline);
    if (!reply) return reply.error();
    return {};
}

Result<JobList> Client::jobs(bool all, Seconds deadline) {
    return read<JobList>(call("GET", all ? "/v1/jobs?all=1" : "/v1/jobs", {}, deadline), "jobs");
}

Result<JobView> Client::job(const std::string &job, Seconds deadline) {
    const auto path = job_path(job);
    if (!path) return path.error();
    return read<JobView>(call("GET", *path, {}, deadline), "job " + job);
}

Result<JobView> Client::cancel(const std::string &job, Seconds deadline) {
    const auto path = job_path(job);
    if (!path) return path.error();
    return read<JobView>(call("DELETE", *path, {}, deadline), "cancel " + job);
}

Result<SitesView> Client::sites(Seconds deadline) {
    return read<SitesView>(call("GET", "/v1/sites", {}, deadline), "sites");
}

Result<LinksView> Client::links(Seconds deadline) {
    return read<LinksView>(call("GET", "/v1/links", {}, deadline), "links");
}

Result<LinksView> Client::measure(const MeasureRequest &request, Seconds deadline) {
    return read<LinksView>(call("POST", "/v1/links/measure", model::print_json(to_json(request)), deadline),
                           "measure");
}

Result<ImportReply> Client::import_links(const ImportRequest &request, Seconds deadline) {
    return read<ImportReply>(call("POST", "/v1/links", model::print_json(to_json(request)), deadline),
                             "import");
}

Result<std::string> Client::version(Seconds deadline) {
    const auto reply = call("GET", "/v1/version", {}, deadline);
    if (!reply) return reply.error();
    const auto json = model::parse_json(*reply);
    return json ? model::text_at(*json, "version") : std::string();
}

} // namespace spider::wire
