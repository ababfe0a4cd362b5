// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/link_words.h"

#include "plan/words.h"
#include "util/text.h"

#include <algorithm>

namespace spider::plan {

namespace {

constexpr std::size_t most_lines = 24;

std::string source_words(const LinkUse &link) {
    if (link.measured_at <= 0) return link.source.empty() ? "as the federation's file says" : link.source;
    return link.source + ", measured " + util::local_time(link.measured_at);
}

std::string line(const LinkUse &link) {
    auto text = "  " + link.from + " -> " + link.to + "  " + util::number(link.gbps, 3) + " Gbit/s, " +
                util::number(link.rtt_ms, 3) + " ms";
    if (!link.used || link.gbps < link.usual_gbps / 2)
        text += ", usually " + util::number(link.usual_gbps, 3) + " Gbit/s";
    return text + " (" + source_words(link) + ")\n";
}

std::string lines(const Plan &plan, bool used, const std::string &title) {
    std::string text;
    std::size_t number = 0;
    for (const auto &link : plan.links)
        if (link.used == used && ++number <= most_lines) text += line(link);
    if (number > most_lines) text += "  … and " + std::to_string(number - most_lines) + " more\n";
    return text.empty() ? text : title + text;
}

} // namespace

std::string link_ages(const Plan &plan, Seconds now) {
    Seconds youngest = now, oldest = 0;
    int pinned = 0, measured = 0;
    for (const auto &link : plan.links) {
        if (!link.used) continue;
        pinned += link.source == "pinned" ? 1 : 0;
        if (link.measured_at <= 0) continue;
        const auto age = std::max(now - link.measured_at, 0.0);
        youngest = measured++ == 0 ? age : std::min(youngest, age);
        oldest = std::max(oldest, age);
    }
    if (measured + pinned == 0) return {};
    if (measured == 0) return "its links are pinned";
    auto text = "links measured " + duration_words(youngest);
    if (duration_words(oldest) != duration_words(youngest)) text += " to " + duration_words(oldest);
    return text + " ago" + (pinned > 0 ? ", " + std::to_string(pinned) + " pinned" : "");
}

std::string link_lines(const Plan &plan) {
    return lines(plan, true, "It rests on these links:\n") +
           lines(plan, false, "It sends nothing on these, which carry much less than usual:\n");
}

} // namespace spider::plan
