// SPDX-License-Identifier: GPL-3.0-or-later
// sd_notify(3) without the library: READY=1, RELOADING=1, STOPPING=1, WATCHDOG=1, STATUS=…; nothing without
// systemd.
#pragma once

#include "util/clock.h"

#include <string>

namespace spider::util {

void notify(const std::string &message);

// How often WATCHDOG=1 is due: half of WATCHDOG_USEC; 0 = never.
Seconds watchdog_interval();

} // namespace spider::util
