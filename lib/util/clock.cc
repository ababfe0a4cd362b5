// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/clock.h"

#include <chrono>

namespace spider::util {

Seconds SystemClock::now() const {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Seconds SystemClock::elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace spider::util
