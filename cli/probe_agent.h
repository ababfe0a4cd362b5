// SPDX-License-Identifier: GPL-3.0-or-later
// spiderflow-probe(8) in the foreground: the agent of lib/probe under signals and systemd.
#pragma once

#include "util/result.h"

#include <string>

namespace spider::cli {

// Until SIGTERM or SIGINT; SIGHUP reads the file again.
Result<void> serve_probe(const std::string &config_path);

} // namespace spider::cli
