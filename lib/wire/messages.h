// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker and its callers say to each other over HTTP, as plain values and their JSON form. Any
// thread.
#pragma once

#include "model/json.h"

#include <cstdint>
#include <map>
#include <optional>
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

struct PlaceRequest {          // POST /v1/jobs/ID/place
    std::int64_t home_job = 0; // Slurm's id of the home part
    std::string script;
    std::vector<std::string> arguments;
    Names environment;
    int umask = 022;
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

struct PartView {
    std::string site;
    std::int64_t job = 0; // Slurm's id there; 0 = not submitted yet
    std::string state;    // Slurm's word, "PENDING"
    int nodes = 0;
    int gpus = 0;
    std::string stages; // "0-1"
    std::string output; // path at that site
    bool operator==(const PartView &) const = default;
};

struct HistoryLine {
    Seconds at = 0; // since the epoch
    std::string state;
    std::string why;
    bool operator==(const HistoryLine &) const = default;
};

struct JobView { // GET /v1/jobs/ID, DELETE /v1/jobs/ID; {"jobs": [...]} of GET /v1/jobs[?all=1]
    std::string id;
    std::string user;
    std::string name;
    std::string state; // a word of coalloc: asked planned placing holding ... done failed cancelled
    std::string reason;
    int attempt = 0;
    Seconds submitted = 0; // since the epoch
    std::string line;
    std::optional<Plan> plan; // may be left out in lists
    std::vector<PartView> parts;
    std::vector<HistoryLine> history;
    bool operator==(const JobView &) const = default;
};

struct JobList {
    std::vector<JobView> jobs;
    bool operator==(const JobList &) const = default;
};

struct SiteView {
    std::string name;
    std::string state; // ACTIVE | DRAIN | INACTIVE
    int nodes = 0;
    int free_nodes = 0;
    int gpus = 0;
    int free_gpus = 0;
    std::string gpu;     // type(s)
    Seconds seen_at = 0; // since the epoch; 0 = never
    bool stale = false;
    std::string trouble;
    std::string api; // "v0.0.38"
    bool operator==(const SiteView &) const = default;
};

struct LinkView {
    std::string from, to; // sites
    double bandwidth_gbps = 0;
    double rtt_ms = 0;
    bool operator==(const LinkView &) const = default;
};

struct SitesView { // GET /v1/sites
    std::string home;
    std::vector<SiteView> sites;
    std::vector<LinkView> links;
    bool operator==(const SitesView &) const = default;
};

Json to_json(const PlanRequest &message);
Json to_json(const PlanReply &message);
Json to_json(const PlaceRequest &message);
Json to_json(const PlaceReply &message);
Json to_json(const JobView &message);
Json to_json(const JobList &message);
Json to_json(const SitesView &message);
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
