// SPDX-License-Identifier: GPL-3.0-or-later
// The network between this node and the master: name, way, port. Blocks for a few seconds at most.
#pragma once

#include "util/clock.h"
#include "util/result.h"

#include <string>

namespace spider::spank {

// `host` as a number: itself when it is one, else what this node's resolver says. Errc::not_found.
Result<std::string> numeric_address(const std::string &host);

// Whether packets go there and come back: an answer of any kind counts, a refusal too, since nobody needs to
// listen yet. Errc::unreachable with the reason.
Result<void> reaches(const std::string &address, int port, Seconds deadline);

// Nobody listens on the port of this node. Errc::refused.
Result<void> is_free(int port);

} // namespace spider::spank
