// SPDX-License-Identifier: GPL-3.0-or-later
// The map: sites along both sides of a lens, in the order of a short tour by round trip time, so that sites
// near each other are neighbours and every name has a row of its own.
#include "plan/svg.h"
#include "plan/words.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace spider::plan {

namespace {

constexpr std::size_t most_unused = 96; // with more sites, those that the plan does not use are only counted
constexpr std::size_t all_links = 12;   // with more sites, only the widest links of each are drawn
constexpr std::size_t widest_links = 3;
constexpr std::size_t most_routes = 24;
constexpr std::array colours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                             "#ff7f0e", "#17becf", "#e377c2", "#8c564b"};

struct Place {
    std::string name;
    const Part *part = nullptr; // of the plan; none: not used
    Point at;
    bool right = true;
};

// Pipelines that go through the same sites.
struct Route {
    std::vector<std::size_t> stops; // index of a place, by stage
    std::set<int> members;
};

struct Map {
    std::vector<Place> places;
    std::vector<Route> routes;
    Point centre;
    std::size_t unused = 0; // sites that are not drawn

    [[nodiscard]] std::size_t find(const std::string &name) const {
        const auto found =
            std::find_if(places.begin(), places.end(), [&](const Place &one) { return one.name == name; });
        return static_cast<std::size_t>(found - places.begin());
    }
};

std::vector<Place> places_of(const Plan &plan, const Federation *federation, std::size_t &left_out) {
    std::vector<Place> places;
    for (const auto &part : plan.parts)
        places.push_back({part.site, &part, {}, true});
    if (!federation) return places;
    const auto used = places.size();
    for (const auto &site : federation->sites())
        if (std::none_of(plan.parts.begin(), plan.parts.end(),
                         [&](const Part &part) { return part.site == site.name; }))
            places.push_back({site.name, nullptr, {}, true});
    if (places.size() > most_unused) left_out = places.size() - used, places.resize(used);
    return places;
}

std::vector<std::vector<double>> distances(const std::vector<Place> &places, const Federation &federation) {
    constexpr double far = 1e6; // no link
    std::vector<std::vector<double>> ms(places.size(), std::vector<double>(places.size(), far));
    for (std::size_t i = 0; i < places.size(); ++i) {
        for (std::size_t j = 0; j < places.size(); ++j) {
            const auto *from = federation.site(places[i].name), *to = federation.site(places[j].name);
            if (i == j || !from || !to) continue;
            if (const auto link = federation.link(from->id, to->id))
                ms[i][j] = std::min(ms[i][j], link->rtt_ms), ms[j][i] = std::min(ms[j][i], link->rtt_ms);
        }
    }
    return ms;
}

// Nearest neighbour, then exchanges of two legs while they help.
std::vector<std::size_t> tour_of(const std::vector<std::vector<double>> &ms) {
    std::vector<std::size_t> tour(ms.size());
    for (std::size_t i = 0; i < tour.size(); ++i)
        tour[i] = i;
    for (std::size_t i = 1; i < tour.size(); ++i) {
        const auto &near = ms[tour[i - 1]];
        std::iter_swap(tour.begin() + static_cast<std::ptrdiff_t>(i),
                       std::min_element(tour.begin() + static_cast<std::ptrdiff_t>(i), tour.end(),
                                        [&](std::size_t a, std::size_t b) { return near[a] < near[b]; }));
    }
    constexpr int most_rounds = 20;
    bool better = tour.size() > 3;
    for (int round = 0; better && round < most_rounds; ++round) {
        better = false;
        for (std::size_t i = 1; i + 1 < tour.size(); ++i) {
            for (std::size_t j = i + 1; j < tour.size(); ++j) {
                const auto before = tour[i - 1], a = tour[i], b = tour[j],
                           after = tour[(j + 1) % tour.size()];
                if (ms[before][b] + ms[a][after] >= ms[before][a] + ms[b][after] - 1e-9) continue;
                std::reverse(tour.begin() + static_cast<std::ptrdiff_t>(i),
                             tour.begin() + static_cast<std::ptrdiff_t>(j) + 1);
                better = true;
            }
        }
    }
    return tour;
}

// Clockwise from the top: down the right side, up the left. Gives the height.
double lay(Map &map, double top, double row) {
    constexpr double half_width = 190;
    const auto count = map.places.size(), right = (count + 1) / 2;
    const double height = std::max(90.0, static_cast<double>(right) * row);
    map.centre = {picture_width / 2, top + height / 2};
    for (std::size_t i = 0; i < count; ++i) {
        auto &place = map.places[i];
        place.right = i < right;
        const auto rows = place.right ? right : count - right;
        const auto nth = place.right ? i : count - 1 - i;
        const double u = (2.0 * static_cast<double>(nth) + 1) / static_cast<double>(rows) - 1; // -1..1
        const double across = half_width * std::sqrt(1 - 0.92 * u * u);
        place.at = {map.centre.x + (place.right ? across : -across), map.centre.y + u * height / 2};
    }
    return height;
}

std::vector<Route> routes_of(const Plan &plan, const Map &map) {
    const auto seats = seats_of(plan);
    std::vector<Route> routes;
    for (int d = 0; d < plan.dp; ++d) {
        std::vector<std::size_t> stops;
        for (const auto &stage : seats)
            stops.push_back(map.find(stage.at(d)));
        const auto known =
            std::find_if(routes.begin(), routes.end(), [&](const Route &one) { return one.stops == stops; });
        if (known != routes.end())
            known->members.insert(d);
        else
            routes.push_back({std::move(stops), {d}});
    }
    return routes;
}

void draw_link(Canvas &canvas, Point a, Point b, double share) {
    const int grey = static_cast<int>(238 - 34 * share);
    const auto tone = std::to_string(grey);
    canvas.line(a, b,
                "stroke=\"rgb(" + tone + "," + tone + "," + tone + ")\" stroke-width=\"" +
                    decimal(0.5 + share, 2) + "\"");
}

// Thin and grey, the wider the darker.
void draw_links(Canvas &canvas, const Map &map, const Federation &federation) {
    struct Wire {
        std::size_t a, b;
        double gbps;
    };
    std::vector<Wire> wires;
    for (std::size_t a = 0; a < map.places.size(); ++a) {
        std::vector<Wire> own;
        for (std::size_t b = 0; b < map.places.size(); ++b) {
            const auto *from = federation.site(map.places[a].name), *to = federation.site(map.places[b].name);
            const auto link = a == b || !from || !to ? std::nullopt : federation.link(from->id, to->id);
            if (link) own.push_back({std::min(a, b), std::max(a, b), link->bandwidth_gbps});
        }
        std::stable_sort(own.begin(), own.end(),
                         [](const Wire &x, const Wire &y) { return x.gbps > y.gbps; });
        if (map.places.size() > all_links && own.size() > widest_links) own.resize(widest_links);
        wires.insert(wires.end(), own.begin(), own.end());
    }
    if (wires.empty()) return;
    std::stable_sort(wires.begin(), wires.end(),
                     [](const Wire &x, const Wire &y) { return x.gbps < y.gbps; });
    for (const auto &wire : wires) // relative to the widest, by orders of magnitude
        draw_link(canvas, map.places[wire.a].at, map.places[wire.b].at,
                  std::clamp(1 + std::log10(wire.gbps / wires.back().gbps) / 2, 0.0, 1.0));
}

// What the few links of a small map can carry.
void draw_numbers(Canvas &canvas, const Map &map, const Federation &federation) {
    constexpr std::size_t few = 3;
    for (std::size_t a = 0; map.places.size() <= few && a < map.places.size(); ++a) {
        for (std::size_t b = a + 1; b < map.places.size(); ++b) {
            const auto *from = federation.site(map.places[a].name), *to = federation.site(map.places[b].name);
            if (!from || !to) continue;
            const auto there = federation.link(from->id, to->id), back = federation.link(to->id, from->id);
            if (!there || !back) continue;
            auto words = util::number(there->bandwidth_gbps, 3);
            if (back->bandwidth_gbps != there->bandwidth_gbps)
                words = util::number(std::max(there->bandwidth_gbps, back->bandwidth_gbps), 3) + " and " +
                        util::number(std::min(there->bandwidth_gbps, back->bandwidth_gbps), 3);
            const Point p = map.places[a].at, q = map.places[b].at;
            canvas.text({(p.x + q.x) / 2, (p.y + q.y) / 2 + 22},
                        words + " Gbit/s, " + util::number(std::max(there->rtt_ms, back->rtt_ms), 3) + " ms",
                        11, Canvas::Anchor::middle, "fill=\"#777\"");
        }
    }
}

// Bent towards the centre, and `shift` pixels to the side so that several do not hide each other.
Point bend(const Map &map, Point a, Point b, double shift) {
    const Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
    const double length = std::max(1.0, std::hypot(b.x - a.x, b.y - a.y));
    return {middle.x + 0.3 * (map.centre.x - middle.x) - shift * (b.y - a.y) / length,
            middle.y + 0.3 * (map.centre.y - middle.y) + shift * (b.x - a.x) / length};
}

void draw_rings(Canvas &canvas, const Map &map, const Plan &plan) {
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto &ring = plan.stages[i].ring;
        const auto legs = ring.size() == 2 ? 1 : ring.size();
        for (std::size_t n = 0; ring.size() > 1 && n < legs; ++n) {
            const auto a = map.find(ring[n]), b = map.find(ring[(n + 1) % ring.size()]);
            if (a >= map.places.size() || b >= map.places.size()) continue;
            const auto from = map.places[a].at, to = map.places[b].at;
            canvas.curve(from, bend(map, from, to, -10.0 - 2.0 * static_cast<double>(i % 8)), to,
                         "stroke=\"#777\" stroke-width=\"1\" stroke-dasharray=\"4 3\"");
        }
    }
}

std::string colour_of(std::size_t route) { return colours[route % colours.size()]; }

void draw_routes(Canvas &canvas, const Map &map, const Course &course) {
    const auto shown = std::min(map.routes.size(), most_routes);
    for (std::size_t r = 0; r < shown; ++r) {
        const auto &route = map.routes[r];
        const bool slowest = route.members.contains(course.slowest);
        const auto style = "stroke=\"" + colour_of(r) + "\" stroke-width=\"" + (slowest ? "3" : "1.6") + "\"";
        const double shift = 7 * (static_cast<double>(r) - static_cast<double>(shown - 1) / 2);
        for (std::size_t i = 0; i + 1 < route.stops.size(); ++i) {
            if (route.stops[i] == route.stops[i + 1]) continue;
            const auto a = map.places[route.stops[i]].at, b = map.places[route.stops[i + 1]].at;
            const auto c = bend(map, a, b, std::clamp(shift, -30.0, 30.0) + 4);
            canvas.curve(a, c, b, style);
            canvas.arrow({a.x / 4 + c.x / 2 + b.x / 4, a.y / 4 + c.y / 2 + b.y / 4}, {b.x - a.x, b.y - a.y},
                         colour_of(r));
        }
    }
}

std::string words_of(const Plan &plan, const Part &part) {
    std::set<int> stages;
    int slots = 0;
    for (const auto &node : part.nodes)
        for (const auto &slot : node)
            stages.insert(slot.stage), ++slots;
    const int first = plan.stages[static_cast<std::size_t>(*stages.begin())].first_layer;
    const int last = plan.stages[static_cast<std::size_t>(*stages.rbegin())].last_layer;
    return (stages.size() == 1 ? "stage " : "stages ") + ranges(stages) +
           (last > first ? ", layers " : ", layer ") + std::to_string(first) +
           (last > first ? "-" + std::to_string(last) : "") + ", " + count(slots * plan.tp, "GPU");
}

void draw_sites(Canvas &canvas, const Map &map, const Plan &plan, bool two_rows) {
    for (const auto &place : map.places) {
        const auto anchor = place.right ? Canvas::Anchor::start : Canvas::Anchor::end;
        const Point label{place.at.x + (place.right ? 13 : -13), place.at.y + (two_rows ? -1 : 4)};
        if (!place.part) {
            canvas.circle(place.at, 4, "fill=\"#ddd\" stroke=\"#aaa\"");
            canvas.text({label.x, place.at.y + 4}, place.name, 10, anchor, "fill=\"#999\"");
            continue;
        }
        canvas.circle(place.at, 7, "fill=\"#333\" stroke=\"#fff\" stroke-width=\"1.5\"");
        const auto words = words_of(plan, *place.part);
        const auto name = place.name.size() > 48 ? place.name.substr(0, 47) : place.name;
        if (two_rows) {
            canvas.text(label, place.name, 12, anchor, "font-weight=\"bold\"");
            canvas.text({label.x, label.y + 14}, words, 11, anchor, "fill=\"#555\"");
        } else {
            canvas.text(label, name + ": " + words, 10, anchor);
        }
    }
}

double draw_legend(Canvas &canvas, double top, const Map &map, const Course &course) {
    double x = 30, y = top + 14;
    for (std::size_t r = 0; r < std::min(map.routes.size(), most_routes); ++r) {
        const auto &members = map.routes[r].members;
        auto words = (members.size() == 1 ? "pipeline " : "pipelines ") + ranges(members);
        if (members.contains(course.slowest) && map.routes.size() > 1) words += " (slowest)";
        const double wide = 40 + 7.0 * static_cast<double>(words.size());
        if (x + wide > picture_width - 30) x = 30, y += 18;
        canvas.line({x, y - 4}, {x + 22, y - 4}, "stroke=\"" + colour_of(r) + "\" stroke-width=\"3\"");
        canvas.text({x + 28, y}, words, 11);
        x += wide;
    }
    y += 18;
    if (map.routes.size() > most_routes)
        canvas.text(
            {30, y},
            "and " + std::to_string(map.routes.size() - most_routes) + " other ways through the sites", 11),
            y += 18;
    std::string words =
        "Lines with arrows: activations, gradients go back.  Dashed: rings that add up a stage's gradients.";
    words += "  Grey: links, the wider the darker";
    if (map.places.size() > all_links)
        words += ", the " + std::to_string(widest_links) + " widest of each site";
    canvas.text({30, y}, words + ".", 11, Canvas::Anchor::start, "fill=\"#555\"");
    if (map.unused > 0)
        y += 16, canvas.text({30, y}, count(static_cast<int>(map.unused), "site") + " not used, not shown.",
                             11, Canvas::Anchor::start, "fill=\"#999\"");
    return y + 6;
}

} // namespace

double draw_map(Canvas &canvas, double top, const Plan &plan, const Course &course,
                const Federation *federation) {
    Map map;
    const auto places = places_of(plan, federation, map.unused);
    if (federation)
        for (const auto i : tour_of(distances(places, *federation)))
            map.places.push_back(places[i]);
    else
        map.places = places;
    const bool two_rows = map.places.size() <= 24;
    const auto height = lay(map, top, two_rows ? 46 : 15);
    map.routes = routes_of(plan, map);
    if (federation) draw_links(canvas, map, *federation), draw_numbers(canvas, map, *federation);
    draw_rings(canvas, map, plan);
    draw_routes(canvas, map, course);
    draw_sites(canvas, map, plan, two_rows);
    return draw_legend(canvas, top + height + 14, map, course);
}

} // namespace spider::plan
