// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/link_tables.h"

#include "cli/common.h"
#include "cli/table.h"
#include "util/text.h"

#include <algorithm>
#include <map>

namespace spider::cli {

namespace {

// What is not known is never shown as a number.
std::string known(double value) { return value > 0 ? util::number(value, 3) : "-"; }

std::string age_of(const wire::LinkState &link, const wire::LinksView &view) {
    if (link.measured_at <= 0) return "-";
    const auto seconds = view.now - link.measured_at;
    return age(std::max(seconds, 0.0)) + (view.max_age > 0 && seconds > view.max_age ? " (stale)" : "");
}

std::string source_of(const wire::LinkState &link) {
    return link.testing ? or_dash(link.source) + " (testing)" : or_dash(link.source);
}

bool worse(const wire::LinkState &a, const wire::LinkState &b) {
    return a.gbps != b.gbps ? a.gbps < b.gbps : a.rtt_ms > b.rtt_ms;
}

std::string square(const std::string &title, const std::vector<std::string> &names,
                   const wire::LinksView &view, double wire::LinkState::*value) {
    std::map<std::pair<std::string, std::string>, double> values;
    for (const auto &link : view.links)
        values[{link.from, link.to}] = link.*value;
    std::vector<Column> columns{{title}};
    for (const auto &name : names)
        columns.push_back({name, true});
    Table table(std::move(columns));
    for (const auto &from : names) {
        std::vector<std::string> cells{from};
        for (const auto &to : names)
            cells.push_back(from == to ? "" : known(values[{from, to}]));
        table.add(std::move(cells));
    }
    return table.text();
}

} // namespace

std::string link_list(const wire::LinksView &view) {
    auto links = view.links;
    std::stable_sort(links.begin(), links.end(), worse);
    Table table({{"FROM"},
                 {"TO"},
                 {"GBIT/S", true},
                 {"MEDIAN", true},
                 {"IN USE", true},
                 {"RTT/MS", true},
                 {"AGE", true},
                 {"SOURCE"},
                 {"TROUBLE"}});
    for (const auto &link : links)
        table.add({link.from, link.to, known(link.gbps), known(link.gbps_median), known(link.reserved_gbps),
                   known(link.rtt_ms), age_of(link, view), source_of(link), or_dash(link.trouble)});
    return table.text();
}

std::string link_matrix(const wire::LinksView &view) {
    std::vector<std::string> names;
    for (const auto &link : view.links)
        for (const auto &name : {link.from, link.to})
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    std::sort(names.begin(), names.end());
    return square("GBIT/S", names, view, &wire::LinkState::gbps) + "\n" +
           square("RTT/MS", names, view, &wire::LinkState::rtt_ms);
}

wire::LinksView links_of(const Federation &federation, Seconds now) {
    wire::LinksView view{.now = now};
    for (const auto &link : federation.links()) {
        wire::LinkState state{.from = federation.site(link.from).name, .to = federation.site(link.to).name};
        state.gbps = link.bandwidth_gbps;
        state.rtt_ms = link.rtt_ms;
        state.streams = link.streams;
        state.source = "file";
        if (const auto *origin = federation.origin(link.from, link.to)) {
            state.source = origin->source;
            state.measured_at = origin->measured_at;
            state.gbps_median = origin->usual_gbps;
        }
        for (const auto &reserved : federation.network().reserved)
            if (reserved.from == link.from && reserved.to == link.to) state.reserved_gbps += reserved.gbps;
        view.links.push_back(std::move(state));
    }
    return view;
}

} // namespace spider::cli
