// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/log.h"

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string>
#include <unistd.h>

namespace spider::util {
namespace {

std::atomic<int> threshold{static_cast<int>(Level::info)};

std::string prefix(Level level) {
    // systemd sets JOURNAL_STREAM when standard error goes to the journal (systemd.exec(5)).
    if (std::getenv("JOURNAL_STREAM") != nullptr) return "<" + std::to_string(static_cast<int>(level)) + ">";
    const auto now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    char text[40];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S ", &parts);
    const char *name = level == Level::error ? "error: " : level == Level::warning ? "warning: " : "";
    return std::string(text) + name;
}

} // namespace

void set_log_level(Level level) { threshold = static_cast<int>(level); }

void log(Level level, std::string_view line) {
    if (static_cast<int>(level) > threshold) return;
    std::string text = prefix(level);
    for (const char c : line)
        text += static_cast<unsigned char>(c) < 32 ? ' ' : c; // one event, one line
    text += '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

} // namespace spider::util
