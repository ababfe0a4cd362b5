// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker and its callers say to each other over HTTP, as plain values and their JSON form. Any
// thread.
#pragma once

#include "wire/links.h"
#include "wire/views.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spider::wire {

using Pairs = std::vector<std::pair<std::string, std::string>>; // order matters: options are set one by one
using Names = std::map<std::string, std::string, std::less<>>;

struct PlanRequest { // POST /v1/plans
    JobSpec spec;
    Names options;   // sbatch options that the user set, by long name; valueless ones have ""
    std::string cwd; // of sbatch
    bool test_only = false;
    bool operator==(const PlanRequest &) const = default;
};

struct PlanReply {
    std::string id; // of the federated job, "s1-17"
    Plan plan;
    std::string line;  // one line for the user
    Pairs options;     // sbatch options to set for the home part
    Pairs environment; // variables to set for the home part
    bool operator==(const PlanReply &) const = default;
};

struct Archive {        // files that travel; both empty: none
    std::string base64; // of a tar.gz
    std::string sha256; // of the tar.gz, 64 hexadecimal digits
    bool operator==(const Archive &) const = default;
};

struct PlaceRequest {          // POST /v1/jobs/ID/place
    std::int64_t home_job = 0; // Slurm's id of the home part
    std::string script;
    std::vector<std::string> arguments;
    Names environment;
    int umask = 022;
    Archive stage = {};
    Names spank_options = {}; // of other plugins, by "PLUGIN_OPTION"; the broker decides which are forwarded
    bool operator==(const PlaceRequest &) const = default;
};

struct PlacedPart {
    std::string site;
    std::int64_t job = 0;
    bool operator==(const PlacedPart &) const = default;
};

struct PlaceReply {
    std::vector<PlacedPart> parts;
    bool operator==(const PlaceReply &) const = default;
};

Json to_json(const PlanRequest &message);
Json to_json(const PlanReply &message);
Json to_json(const PlaceRequest &message);
Json to_json(const PlaceReply &message);
Json to_json(const JobView &message);
Json to_json(const JobList &message);
Json to_json(const SitesView &message);
Json to_json(const LinksView &message);
Json to_json(const MeasureRequest &message);
Json to_json(const ImportRequest &message);
Json to_json(const ImportReply &message);
Json error_json(std::string_view what); // {"error": "one line"}

// The other way, for each type above; Errc::invalid names the key that is missing or of the wrong type.
template <class T>
Result<T> from_json(const Json &json);

// A body as it came. Errc::invalid.
template <class T>
Result<T> parse(std::string_view body) {
    auto json = model::parse_json(body);
    if (!json) return std::move(json).error();
    return from_json<T>(json.value());
}

int http_status(Errc code);
Errc errc_of_status(int status);          // of an answer that is not 2xx
bool valid_job_id(std::string_view text); // "<home>-<n>": what may stand in a path

} // namespace spider::wire
