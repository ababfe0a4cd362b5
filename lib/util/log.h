// SPDX-License-Identifier: GPL-3.0-or-later
// Log lines of the broker on standard error: sd-daemon level prefix under systemd, else a time stamp. Any
// thread.
#pragma once

#include <string_view>

namespace spider::util {

enum class Level { error = 3, warning = 4, info = 6, debug = 7 }; // numbers of syslog(3)

void set_log_level(Level level);
void log(Level level, std::string_view line);
inline void log_error(std::string_view line) { log(Level::error, line); }
inline void log_warning(std::string_view line) { log(Level::warning, line); }
inline void log_info(std::string_view line) { log(Level::info, line); }
inline void log_debug(std::string_view line) { log(Level::debug, line); }

} // namespace spider::util
