// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/words.h"

#include "util/text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace spider::plan {

std::string decimal(double value, int places) {
    std::array<char, 400> buffer{};
    const auto [end, error] =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, places);
    return error == std::errc{} ? std::string(buffer.data(), end) : std::string("?");
}

std::string gigabytes(Bytes bytes) {
    return bytes < 1e8 ? decimal(bytes / 1e6, 1) + " MB" : decimal(bytes / 1e9, 1) + " GB";
}

std::string seconds_words(Seconds seconds) {
    if (seconds < 0.1) return util::number(seconds * 1000, 3) + " ms";
    return seconds < 100 ? decimal(seconds, 2) + " s" : decimal(seconds, 0) + " s";
}

std::string tokens_words(double per_second) {
    if (per_second >= 1e6) return decimal(per_second / 1e6, 1) + "M tokens/s";
    if (per_second >= 1e4) return decimal(per_second / 1e3, 0) + "k tokens/s";
    return decimal(per_second, 0) + " tokens/s";
}

std::string count(int number, const std::string &noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string percent(double share) { return decimal(std::round(share * 100), 0) + "%"; }

} // namespace spider::plan
