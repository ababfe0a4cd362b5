// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

namespace spider::util {

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n\v\f";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    if (text.empty()) return parts;
    for (std::size_t begin = 0;;) {
        const auto end = text.find(separator, begin);
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

std::string join(const std::vector<std::string> &parts, std::string_view separator) {
    std::string text;
    for (const auto &part : parts) {
        if (&part != parts.data()) text += separator;
        text += part;
    }
    return text;
}

std::optional<std::int64_t> to_int(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

std::optional<double> to_double(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    if (!std::isfinite(value)) return std::nullopt;
    return value;
}

namespace {

Error bad_time(std::string_view text) {
    return {Errc::invalid, "time '" + std::string(text) +
                               "': expected minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED"};
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

} // namespace

Result<std::int64_t> parse_time_limit(std::string_view text) {
    if (same_ignoring_case(text, "UNLIMITED") || same_ignoring_case(text, "INFINITE"))
        return unlimited_minutes;
    const auto dash = text.find('-');
    std::vector<std::int64_t> fields; // what follows the days
    std::int64_t days = 0;
    const auto rest = dash == std::string_view::npos ? text : text.substr(dash + 1);
    for (const auto &field : split(rest, ':')) {
        const auto value = to_int(field);
        if (!value || *value < 0 || field[0] == '+' || *value > 100'000'000) return bad_time(text);
        fields.push_back(*value);
    }
    if (fields.empty() || fields.size() > 3) return bad_time(text);
    std::int64_t seconds = 0;
    if (dash != std::string_view::npos) {
        const auto value = to_int(text.substr(0, dash));
        if (!value || *value < 0 || *value > 1'000'000) return bad_time(text);
        days = *value;
        constexpr std::array<std::int64_t, 3> unit{3600, 60, 1};
        for (std::size_t i = 0; i < fields.size(); ++i)
            seconds += fields[i] * unit[i];
    } else if (fields.size() == 1) {
        seconds = fields[0] * 60;
    } else if (fields.size() == 2) {
        seconds = fields[0] * 60 + fields[1];
    } else {
        seconds = fields[0] * 3600 + fields[1] * 60 + fields[2];
    }
    return days * 1440 + (seconds + 59) / 60;
}

Result<std::int64_t> parse_megabytes(std::string_view text) {
    const Error bad{Errc::invalid, "memory '" + std::string(text) + "': expected a number with K, M, G or T"};
    if (text.empty()) return bad;
    double megabytes = 1;
    auto digits = text;
    switch (std::toupper(static_cast<unsigned char>(text.back()))) {
    case 'K':
        megabytes = 1.0 / 1024;
        break;
    case 'M':
        break;
    case 'G':
        megabytes = 1024;
        break;
    case 'T':
        megabytes = 1024.0 * 1024;
        break;
    default:
        digits = text;
        megabytes = 0;
    }
    if (megabytes != 0)
        digits.remove_suffix(1);
    else
        megabytes = 1;
    const auto value = to_int(digits);
    if (!value || *value < 0 || *value > 1'000'000'000'000) return bad;
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(*value) * megabytes));
}

std::string escape_line(std::string_view text) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::string line;
    for (const char c : text) {
        if (c == '%' || c == '\n' || c == '\r' || c == '\0') {
            line += '%';
            line += hex[static_cast<unsigned char>(c) >> 4];
            line += hex[static_cast<unsigned char>(c) & 15];
        } else {
            line += c;
        }
    }
    return line;
}

std::string unescape_line(std::string_view text) {
    std::string line;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        if (text[i] == '%' && i + 2 < text.size() &&
            std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
            line += static_cast<char>(value);
            i += 2;
        } else {
            line += text[i];
        }
    }
    return line;
}

std::string shell_quote(std::string_view text) {
    std::string word = "'";
    for (const char c : text) {
        if (c == '\'')
            word += "'\\''";
        else
            word += c;
    }
    return word + "'";
}

std::string local_time(double since_epoch) {
    if (since_epoch <= 0) return "-";
    const auto when = static_cast<std::time_t>(since_epoch);
    std::tm parts{};
    std::array<char, 64> text{};
    if (::localtime_r(&when, &parts) == nullptr) return "-";
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    return text.data();
}

std::string number(double value, int digits) {
    std::array<char, 64> buffer{};
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                            std::chars_format::general, digits);
    return error == std::errc{} ? std::string(buffer.data(), end) : std::string("?");
}

} // namespace spider::util
