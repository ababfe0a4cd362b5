// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/api.h"

#include "slurm/api_v38.h"

#include <algorithm>
#include <array>

namespace spider::slurm {
namespace {

struct Version {
    std::string_view name;
    std::unique_ptr<Api> (*make)();
};

template <class T>
std::unique_ptr<Api> made() {
    return std::make_unique<T>();
}

constexpr std::array versions{
    Version{"v0.0.38", made<ApiV38>}, // Slurm 22.05
};

} // namespace

std::vector<std::string_view> known_versions() {
    std::vector<std::string_view> names;
    for (const Version &version : versions)
        names.push_back(version.name);
    return names;
}

std::unique_ptr<Api> make_api(std::string_view version) {
    const auto found =
        std::find_if(versions.begin(), versions.end(), [&](auto &row) { return row.name == version; });
    return found != versions.end() ? found->make() : nullptr;
}

Request to_request(const Endpoint &endpoint, const Call &call, Seconds timeout) {
    constexpr std::string_view unix_scheme = "unix:";
    Request request;
    request.method = call.method;
    request.lane = endpoint.site;
    request.timeout = timeout;
    std::string base = endpoint.url;
    if (base.starts_with(unix_scheme)) {
        request.unix_socket = base.substr(unix_scheme.size());
        base = "http://localhost";
    }
    while (base.ends_with('/'))
        base.pop_back();
    request.url = base + call.path;
    request.headers = {{"X-SLURM-USER-NAME", endpoint.user}, {"X-SLURM-USER-TOKEN", endpoint.token}};
    if (!call.body.empty()) request.headers.emplace_back("Content-Type", "application/json");
    request.body = call.body;
    return request;
}

} // namespace spider::slurm
