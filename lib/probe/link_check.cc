// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/link_check.h"

#include "util/text.h"

#include <algorithm>

namespace spider::probe {

namespace {

constexpr double small_ms = 1; // a round trip is not worse by less

// "s1>s2@0.01@25.3".
std::string entry_of(const std::string &from, const std::string &to, double gbps, double rtt_ms) {
    return from + ">" + to + "@" + util::number(gbps, 4) + "@" + util::number(rtt_ms, 4);
}

Result<Expected> parse_entry(std::string_view text) {
    const auto words = util::split(text, '@');
    const auto arrow = words.empty() ? std::string::npos : words[0].find('>');
    if (words.size() == 3 && arrow != std::string::npos && arrow > 0 && arrow + 1 < words[0].size()) {
        const double gbps = util::to_double(words[1]).value_or(-1),
                     rtt = util::to_double(words[2]).value_or(-1);
        if (gbps >= 0 && rtt >= 0)
            return Expected{words[0].substr(0, arrow), words[0].substr(arrow + 1), gbps, rtt};
    }
    return Error{Errc::invalid, "'" + std::string(text) + "': expected FROM>TO@GBPS@MS"};
}

} // namespace

LinkCheck check_of(const Plan &plan, bool replan, double factor, std::string key) {
    LinkCheck check{replan, factor, std::move(key), {}};
    for (const auto &link : plan.links)
        if (link.used) check.links.push_back({link.from, link.to, link.gbps, link.rtt_ms});
    return check;
}

std::string to_text(const LinkCheck &check) {
    std::vector<std::string> links;
    for (const auto &link : check.links)
        links.push_back(entry_of(link.from, link.to, link.gbps, link.rtt_ms));
    return std::string(check.replan ? "replan" : "warn") + ";" + util::number(check.factor, 4) + ";" +
           check.key + ";" + util::join(links, ",");
}

Result<LinkCheck> parse_link_check(std::string_view text) {
    const auto words = util::split(text, ';');
    const auto factor = words.size() == 4 ? util::to_double(words[1]) : std::nullopt;
    if (!factor || *factor < 1 || (words[0] != "warn" && words[0] != "replan"))
        return Error{Errc::invalid, "expected warn or replan; FACTOR; KEY; LINKS"};
    LinkCheck check{words[0] == "replan", *factor, words[2], {}};
    for (const auto &word : util::split(words[3], ',')) {
        auto link = parse_entry(word);
        if (!link) return std::move(link).error();
        check.links.push_back(std::move(*link));
    }
    return check;
}

std::string worse(const Expected &expected, const Sample &seen, double factor) {
    const auto link = "the link " + expected.from + " -> " + expected.to;
    const auto gbps = seen.gbps_both > 0 ? std::min(seen.gbps, seen.gbps_both) : seen.gbps;
    if (gbps * factor < expected.gbps)
        return link + " carries " + util::number(gbps, 3) + " Gbit/s, and the plan counts on " +
               util::number(expected.gbps, 3);
    if (seen.rtt_ms > factor * expected.rtt_ms + small_ms)
        return link + " has a round trip of " + util::number(seen.rtt_ms, 3) +
               " ms, and the plan counts on " + util::number(expected.rtt_ms, 3);
    return {};
}

std::string seen_text(const std::vector<Sample> &samples) {
    std::vector<std::string> words;
    for (const auto &sample : samples)
        words.push_back(entry_of(sample.from, sample.to,
                                 sample.gbps_both > 0 ? std::min(sample.gbps, sample.gbps_both) : sample.gbps,
                                 sample.rtt_ms));
    return util::join(words, ",");
}

Result<std::vector<Sample>> parse_seen(std::string_view text, Seconds at) {
    std::vector<Sample> samples;
    for (const auto &word : util::split(text, ',')) {
        auto seen = parse_entry(word);
        if (!seen) return std::move(seen).error();
        Sample sample{.from = seen->from, .to = seen->to, .source = Source::job, .at = at};
        sample.gbps = seen->gbps, sample.rtt_ms = seen->rtt_ms;
        if (auto good = plausible(sample); !good) return std::move(good).error();
        samples.push_back(std::move(sample));
    }
    return samples;
}

} // namespace spider::probe
