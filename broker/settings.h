// SPDX-License-Identifier: GPL-3.0-or-later
// spiderflow.conf as values. Unknown keys and wrong types are errors with file:line:column; secrets are
// files.
#pragma once

#include "model/site.h"
#include "util/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spider::broker {

constexpr std::int64_t largest_script = 16 << 20; // max_script may not be more: see the server's largest_body

struct SiteConfig {
    std::string name;
    std::string url;        // "http://host:port", "https://…" or "unix:/path"
    std::string token_file; // a JWT of Slurm's own user (auth proxy), mode 0600; read again when it changes
    std::string token_user = "slurm"; // whose token it is; polls run as this user
    std::string partition;            // where parts go when the user names none; empty = the site's default
    std::string account;
    std::map<std::string, std::string> partitions; // home's name -> this site's name
    std::map<std::string, std::string> accounts;
    std::map<std::string, std::string> users; // name on the broker's host -> name at this site
    // %u = user, %j = federated job; empty = the directory of the submission
    std::string workdir;
    std::string home = "/home/%u"; // HOME of the parts' tasks
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    std::string gpu; // type, where the site's gres names none
    bool routable = true;
    std::map<std::string, std::string> addresses; // of nodes, where other sites know them by another one
    std::string interface;                        // of the training's sockets, in NCCL's words; empty = found
    std::int64_t max_script = 4 << 20;            // bytes; max_script_size of slurm.conf(5)
    SiteState state = SiteState::active;
    std::string probe; // its agent, "host:port"; empty = none
    bool operator==(const SiteConfig &) const = default;
};

struct LinkConfig {
    std::string from, to;
    double bandwidth_gbps = 0;
    double rtt_ms = 0;
    bool both = true; // the same in the other direction
    bool operator==(const LinkConfig &) const = default;
};

// Measuring the links between sites that have an agent; not done without a key.
struct ProbeConfig {
    std::string key_file;        // of the federation's agents, mode 0600
    Seconds interval = 4 * 3600; // between two tests of a pair of sites
    Seconds max_age = 24 * 3600; // what was measured before is not known any more
    Seconds seconds = 3;         // of each of a test's three phases
    std::int64_t streams = 8;
    double pace_gbps = 0;      // all streams together; 0 = as fast as it goes
    double most_gbytes = 4;    // of each direction and phase
    double daily_gbytes = 200; // of each site
    Seconds before_plan = 4;   // that a plan waits for links that are not known
    bool operator==(const ProbeConfig &) const = default;
};

struct Config {
    std::string home; // the site on whose login host this broker runs
    std::string socket = SF_RUNDIR "/spiderflowd.sock";
    std::string journal = SF_STATEDIR "/journal.db";
    std::string link_history; // links.db beside the journal, when nothing else is said
    std::vector<std::string> operators{"root"};
    std::vector<std::string> forward_options; // of other SPANK plugins, "PLUGIN:OPTION"
    Seconds patience = 300;                   // that the GPUs of a part idle, waiting for the other parts
    Seconds margin = 15;                      // a part is released so long before the others should start
    Seconds backoff = 30;                     // before the turn after the first one; doubled with each
    Seconds backoff_most = 1800;              // and before any
    Seconds lost_after = 60;                  // of silence, then on_failure=replan leaves a site behind
    Seconds retry_delay = 10;                 // before the second attempt; doubled with each
    std::int64_t keep_ended = 1000;           // jobs that have ended and are still shown
    Seconds plan_ttl = 20;                    // for sbatch to submit what was planned
    Seconds poll_nodes = 30;
    Seconds poll_jobs = 1; // live parts
    int port_low = 20000;  // MASTER_PORT; outside the ephemeral range 32768-60999
    int port_high = 29999;
    std::vector<SiteConfig> sites;
    std::vector<LinkConfig> links; // pinned: these win over what was measured
    ProbeConfig probe;

    [[nodiscard]] const SiteConfig *site(const std::string &name) const;
};

// Reads, checks and completes the file; also that every token file is a readable secret.
Result<Config> read_config(const std::string &path);

// The name that `map` gives to `name`, else `name` itself.
std::string mapped(const std::map<std::string, std::string> &map, const std::string &name);

} // namespace spider::broker
