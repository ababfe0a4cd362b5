// SPDX-License-Identifier: GPL-3.0-or-later
// What can be read from a site's token without its key. Pure; no error quotes anything of the token.
#pragma once

#include "util/clock.h"
#include "util/result.h"

#include <string_view>

namespace spider::broker {

// When a JWT expires, since the epoch; 0: it names no time. Its signature is not checked. Errc::invalid: not
// a JWT.
Result<Seconds> expiry_of(std::string_view jwt);

} // namespace spider::broker
