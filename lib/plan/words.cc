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

std::string ranges(const std::set<int> &numbers) {
    std::string text;
    for (auto first = numbers.begin(); first != numbers.end();) {
        auto last = first, next = std::next(first);
        while (next != numbers.end() && *next == *last + 1)
            last = next++;
        text += (text.empty() ? "" : ",") + std::to_string(*first);
        if (last != first) text += "-" + std::to_string(*last);
        first = next;
    }
    return text.empty() ? "-" : text;
}

std::string duration_words(Seconds seconds) {
    struct Unit {
        double seconds;
        const char *name, *below;
        double part;
    };
    constexpr std::array units{Unit{86400, " d", " h", 3600}, Unit{3600, " h", " min", 60},
                               Unit{60, " min", nullptr, 1}};
    for (const auto &[length, name, below, part] : units) {
        if (seconds < length) continue;
        const auto rest = below ? std::floor(std::fmod(seconds, length) / part) : 0;
        return decimal(std::floor(seconds / length), 0) + name +
               (rest > 0 ? " " + decimal(rest, 0) + below : "");
    }
    return decimal(seconds, 0) + " s";
}

std::string shape_words(const Plan &plan) {
    return "pp=" + std::to_string(plan.pp) + " dp=" + std::to_string(plan.dp) +
           " tp=" + std::to_string(plan.tp);
}

namespace {

// A bound so far below says nothing: it does not know what the job forces.
constexpr double useful = 10;
constexpr double same = 1 + 1e-8; // rounding

// "19% above": never less than it is.
std::string above(double ratio) {
    return ratio < 2 ? decimal(std::ceil(100 * (ratio - 1) - 1e-6), 0) + "% above"
                     : decimal(ratio, 1) + " times";
}

} // namespace

std::string bound_words(const Iteration &iteration) {
    if (iteration.bound <= 0) return "no bound";
    const double ratio = iteration.seconds / iteration.bound;
    if (ratio >= useful) return "the bound says little here: " + seconds_words(iteration.bound);
    return ratio <= same ? "no plan can be faster" : "at most " + above(ratio) + " the bound";
}

std::string gap_words(const Iteration &iteration) {
    if (iteration.bound <= 0) return bound_words(iteration);
    const double ratio = iteration.seconds / iteration.bound;
    if (ratio <= same) return "no plan can be faster: this one is as fast as the bound";
    if (ratio >= useful) return bound_words(iteration);
    return "no plan can be faster than " + seconds_words(iteration.bound) + ": this one is at most " +
           above(ratio) + " it";
}

std::string some_of(const std::vector<std::string> &names, std::size_t most) {
    if (names.size() <= most + 1) return util::join(names, ", ");
    const std::vector<std::string> few(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most));
    return util::join(few, ", ") + " and " + std::to_string(names.size() - most) + " more";
}

} // namespace spider::plan
