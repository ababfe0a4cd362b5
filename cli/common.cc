// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/common.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace spider::cli {

int failure(const Error &error) {
    note("spiderflow: " + printable(error.what));
    return failed;
}

int misuse(std::string_view what) {
    note("spiderflow: " + printable(what));
    return misused;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_line(std::string_view text) { print(std::string(text) + "\n"); }

void note(std::string_view text) {
    const auto line = std::string(text) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
}

int print_json(const Json &json) {
    print_line(model::print_json(json, 2));
    return success;
}

std::string printable(std::string_view text) {
    std::string clean;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        if (byte == 0xC2 && next >= 0x80 && next < 0xA0) { // C1 controls in UTF-8
            clean += '?';
            ++i;
        } else {
            clean += byte < 0x20 || byte == 0x7F ? '?' : text[i];
        }
    }
    return clean;
}

std::string age(Seconds seconds) {
    const auto total = static_cast<long long>(seconds > 0 ? seconds : 0);
    const auto days = total / 86400;
    std::array<char, 64> text{};
    if (days > 0)
        std::snprintf(text.data(), text.size(), "%lld-%02lld:%02lld:%02lld", days, total / 3600 % 24,
                      total / 60 % 60, total % 60);
    else if (total >= 3600)
        std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", total / 3600, total / 60 % 60,
                      total % 60);
    else
        std::snprintf(text.data(), text.size(), "%lld:%02lld", total / 60, total % 60);
    return text.data();
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

Result<std::string> read_all(int fd, std::size_t limit) {
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const auto got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{Errc::system, std::string("standard input: ") + std::strerror(errno)};
        if (got == 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
        if (text.size() > limit) return Error{Errc::invalid, "standard input: too long"};
    }
}

std::string working_directory() {
    std::array<char, 4096> path{};
    return ::getcwd(path.data(), path.size()) != nullptr ? path.data() : ".";
}

std::string environment_value(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

} // namespace spider::cli
