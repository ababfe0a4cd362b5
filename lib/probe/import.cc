// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/import.h"

#include "probe/import_formats.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>

namespace spider::probe {

namespace {

constexpr std::array formats{std::pair("iperf3", Format::iperf3), std::pair("pscheduler", Format::pscheduler),
                             std::pair("csv", Format::csv), std::pair("toml", Format::toml)};

Error invalid(std::string what) { return {Errc::invalid, std::move(what)}; }

bool looks_like_json(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t\r\n");
    return begin != std::string_view::npos && (text[begin] == '{' || text[begin] == '[') &&
           text.substr(begin, 2) != "[[";
}

bool looks_like_toml(std::string_view text) {
    for (const auto &line : util::split(text, '\n')) {
        const auto words = util::trim(line);
        if (!words.empty() && words.front() != '#') return words.starts_with("[[");
    }
    return false;
}

Result<Imported> read_json(std::string_view text, const ImportOptions &options) {
    auto json = model::parse_json(text);
    if (!json) return std::move(json).error();
    auto format = options.format;
    if (format == Format::any)
        format = json->contains("intervals") && json->contains("start") ? Format::iperf3 : Format::pscheduler;
    return format == Format::iperf3 ? read_iperf3(*json, options) : read_pscheduler(*json, options);
}

Result<Imported> read(const std::string &file, std::string_view text, const ImportOptions &options) {
    if (text.size() > largest_import)
        return invalid(file + ": " + std::to_string(text.size()) + " bytes; at most " +
                       std::to_string(largest_import));
    const bool json = options.format == Format::iperf3 || options.format == Format::pscheduler ||
                      (options.format == Format::any && looks_like_json(text));
    if (json) {
        auto found = read_json(text, options);
        return found ? found : Result<Imported>(std::move(found).error().within(file));
    }
    if (options.format == Format::toml || (options.format == Format::any && looks_like_toml(text)))
        return read_toml(file, text, options);
    return read_csv(file, text, options);
}

const Sample *way_back(const std::vector<Sample> &one_way, const Sample &forth) {
    const auto found = std::find_if(one_way.begin(), one_way.end(), [&](const Sample &back) {
        return back.from == forth.to && back.to == forth.from;
    });
    return found == one_way.end() ? nullptr : &*found;
}

// "+01:00", "-0530", "Z".
std::optional<Seconds> offset_of(std::string_view text) {
    if (text == "Z" || text == "z") return 0;
    if (text.empty() || (text.front() != '+' && text.front() != '-')) return std::nullopt;
    std::string digits(text.substr(1));
    std::erase(digits, ':');
    const auto number = util::to_int(digits);
    if (!number || digits.size() != 4) return std::nullopt;
    return (text.front() == '-' ? -60.0 : 60.0) * static_cast<double>(*number / 100 * 60 + *number % 100);
}

} // namespace

std::optional<Format> format_named(std::string_view text) {
    for (const auto &[name, format] : formats)
        if (text == name) return format;
    return std::nullopt;
}

std::optional<Seconds> time_of(std::string_view text) {
    if (const auto seconds = util::to_double(text)) return *seconds > 0 ? seconds : std::nullopt;
    tm parts{};
    const std::string words(text);
    const char *rest = ::strptime(words.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == nullptr) return std::nullopt;
    if (*rest == '.') // of a second
        for (++rest; *rest >= '0' && *rest <= '9';)
            ++rest;
    const auto offset = offset_of(rest);
    if (!offset) return std::nullopt;
    const int day = parts.tm_mday; // timegm() makes the 3rd of March of the 31st of February
    const auto at = static_cast<Seconds>(::timegm(&parts)) - *offset;
    return parts.tm_mday == day ? std::optional(at) : std::nullopt;
}

int count_of(const std::optional<double> &value) {
    constexpr double most = 2e9;
    return value && std::isfinite(*value) ? static_cast<int>(std::clamp(*value, 0.0, most)) : 0;
}

Result<void> not_limited(double gbps, double limit_bits) {
    constexpr double nearly = 0.9;
    const auto limit = limit_bits * 1e-9;
    if (!(limit > 0) || gbps < nearly * limit) return {};
    return invalid("the test was told to send no faster than " + util::number(limit, 4) +
                   " Gbit/s: that is no bandwidth of the link");
}

Result<double> measured(double value, std::string_view what) {
    if (std::isfinite(value) && value > 0) return value;
    return invalid(std::string(what) + " of " + util::number(value) + ": no link is like that");
}

Result<std::pair<std::string, std::string>> ends_of(const std::string &from_host, const std::string &to_host,
                                                    const ImportOptions &options) {
    std::pair ends{options.from, options.to};
    for (const auto &[site, host] : {std::pair(&ends.first, &from_host), std::pair(&ends.second, &to_host)}) {
        if (!site->empty()) continue;
        const auto found = options.sites.find(*host);
        if (found == options.sites.end())
            return invalid(host->empty()
                               ? "it does not say between whom it was measured; give --from SITE --to SITE"
                               : "host '" + *host + "': of which site? give --site '" + *host +
                                     "=SITE', or --from SITE --to SITE");
        *site = found->second;
    }
    return ends;
}

Result<void> Importer::add(const std::string &file, std::string_view text) {
    const auto found = read(file, text, options_);
    if (!found) return found.error();
    for (const auto &sample : found->samples)
        if (auto good = plausible(sample); !good) return std::move(good).error().within(file);
    if (found->samples.empty() && found->one_way.empty()) return invalid(file + ": no measurement in it");
    samples_.insert(samples_.end(), found->samples.begin(), found->samples.end());
    one_way_.insert(one_way_.end(), found->one_way.begin(), found->one_way.end());
    return {};
}

Result<std::vector<Sample>> Importer::samples() const {
    auto all = samples_;
    for (const auto &forth : one_way_) {
        const auto *back = way_back(one_way_, forth);
        if (back == nullptr)
            return invalid("latency " + forth.from + " -> " + forth.to +
                           ": the way back is missing; import " + forth.to + " -> " + forth.from +
                           " with it");
        auto trip = forth;
        trip.at = std::min(forth.at, back->at);
        trip.rtt_min_ms += back->rtt_min_ms;
        trip.rtt_ms += back->rtt_ms;
        trip.rtt_p95_ms += back->rtt_p95_ms;
        if (auto good = measured(trip.rtt_ms, "a round trip in ms"); !good) return std::move(good).error();
        trip.rtt_min_ms = std::max(trip.rtt_min_ms, 0.0);
        if (auto good = plausible(trip); !good) return std::move(good).error();
        all.push_back(trip);
    }
    return all;
}

} // namespace spider::probe
