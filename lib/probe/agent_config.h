// SPDX-License-Identifier: GPL-3.0-or-later
// The configuration of spiderflow-probe(8), a TOML file. Plain values.
#pragma once

#include "probe/address.h"
#include "probe/key.h"
#include "probe/order.h"

#include <string>
#include <vector>

namespace spider::probe {

struct AgentConfig {
    std::string site; // whose links it measures
    // Not in /etc/services nor with IANA, not one of Slurm's (6817 to 6820), below the ephemeral ports.
    std::string listen = "[::]:7711";
    std::string key_file;
    std::vector<std::string> allow; // addresses and networks that may connect, and may be measured towards
    double most_gbps = 0;           // of each direction; 0 = no limit
    double most_gbytes = 16;        // of a test, both directions together
    double daily_gbytes = 200;      // of a day (UTC), both directions together
    std::int64_t streams = most_streams;
    // Made of the above.
    std::vector<Network> networks;
    Key key;

    [[nodiscard]] bool admits(const Address &address) const;
};

// Reads, checks and completes the file; also that the key is a readable secret.
Result<AgentConfig> read_agent_config(const std::string &path);

} // namespace spider::probe
