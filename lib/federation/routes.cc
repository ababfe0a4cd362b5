// SPDX-License-Identifier: GPL-3.0-or-later
#include "federation/routes.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>

namespace spider::federation {

namespace {

constexpr int none = -1;
constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A way to a site. `level` is how many of the widths asked for it has.
struct Label {
    int site = 0;
    int link = none;   // the last
    int before = none; // label of the way without it
    double rtt_ms = 0;
    int level = 0;
};

// Shortest first, of those the widest; then the oldest, so that chance has no say.
struct Later {
    const std::vector<Label> &labels;
    bool operator()(int a, int b) const {
        const auto &x = labels[at(a)], &y = labels[at(b)];
        if (x.rtt_ms != y.rtt_ms) return x.rtt_ms > y.rtt_ms;
        return x.level != y.level ? x.level < y.level : a > b;
    }
};

using Queue = std::priority_queue<int, std::vector<int>, Later>;

// The routes out of one site. First how wide the widest way to each site is; then Dijkstra by RTT, where a
// site is entered again by each way that is wider than all shorter ones: the wider beginning is not the
// better one when the route is narrow further on.
class Search {
  public:
    explicit Search(const Graph &graph) : graph_(graph) {}
    bool run(int from, const std::function<bool(const Route &)> &found);

  private:
    [[nodiscard]] bool goes_on(int site) const { return site == from_ || graph_.forwards[at(site)]; }
    void find_widths();
    void find_levels();
    [[nodiscard]] int level_of(double width) const;
    void find_shortest();
    void spread(int label, Queue &queue);
    bool tell(const std::function<bool(const Route &)> &found);

    const Graph &graph_; // edges of each site: widest first
    int from_ = 0;
    std::vector<double> widths_; // of the widest way to each site; 0 = no way
    std::vector<bool> linked_;   // has an edge from from_, or is it
    std::vector<double> asked_;  // widths of the sites that need a route, ascending, each once
    std::size_t missing_ = 0;    // sites that still need one
    std::vector<Label> labels_;
    std::vector<int> levels_;   // of the widest way into each site so far
    std::vector<int> shortest_; // label of the route to each site
    std::vector<int> links_;
};

// Grows the set of sites reached by the widest edge that leaves it. The narrowest edge taken so far is the
// width.
void Search::find_widths() {
    using Next = std::pair<double, std::pair<int, std::size_t>>; // width, edge of a site
    widths_.assign(graph_.edges.size(), 0);
    std::priority_queue<Next> queue;
    const auto offer = [&](int site, std::size_t edge) {
        const auto &edges = graph_.edges[at(site)];
        while (edge < edges.size() && widths_[at(edges[edge].to)] > 0)
            ++edge;
        if (edge < edges.size()) queue.push({edges[edge].width, {site, edge}});
    };
    double width = infinity;
    widths_[at(from_)] = width;
    offer(from_, 0);
    while (!queue.empty()) {
        const auto [site, edge] = queue.top().second;
        queue.pop();
        const auto &next = graph_.edges[at(site)][edge];
        if (widths_[at(next.to)] == 0) {
            width = std::min(width, next.width);
            widths_[at(next.to)] = width;
            if (goes_on(next.to)) offer(next.to, 0);
        }
        offer(site, edge + 1);
    }
}

void Search::find_levels() {
    linked_.assign(graph_.edges.size(), false);
    linked_[at(from_)] = true;
    for (const auto &edge : graph_.edges[at(from_)])
        linked_[at(edge.to)] = true;
    asked_.clear();
    for (std::size_t to = 0; to < widths_.size(); ++to)
        if (!linked_[to] && widths_[to] > 0) asked_.push_back(widths_[to]);
    missing_ = asked_.size();
    std::sort(asked_.begin(), asked_.end());
    asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
}

int Search::level_of(double width) const {
    return static_cast<int>(std::upper_bound(asked_.begin(), asked_.end(), width) - asked_.begin());
}

void Search::spread(int label, Queue &queue) {
    const auto here = labels_[at(label)];
    for (const auto &edge : graph_.edges[at(here.site)]) {
        const int level = std::min(here.level, level_of(edge.width));
        if (level == 0) break; // and so are all that follow
        if (level <= levels_[at(edge.to)]) continue;
        labels_.push_back({edge.to, edge.link, label, here.rtt_ms + edge.rtt_ms, level});
        queue.push(static_cast<int>(labels_.size()) - 1);
    }
}

void Search::find_shortest() {
    labels_.assign(1, {.site = from_, .level = static_cast<int>(asked_.size())});
    levels_.assign(widths_.size(), 0);
    levels_[at(from_)] = labels_.front().level;
    shortest_.assign(widths_.size(), none);
    Queue queue(Later{labels_});
    spread(0, queue);
    while (missing_ > 0 && !queue.empty()) {
        const int label = queue.top();
        queue.pop();
        const auto [site, link, before, rtt, level] = labels_[at(label)];
        if (level <= levels_[at(site)]) continue;
        levels_[at(site)] = level;
        if (!linked_[at(site)] && shortest_[at(site)] == none && level >= level_of(widths_[at(site)])) {
            shortest_[at(site)] = label;
            --missing_;
        }
        if (goes_on(site)) spread(label, queue);
    }
}

bool Search::tell(const std::function<bool(const Route &)> &found) {
    for (int to = 0; to < static_cast<int>(shortest_.size()); ++to) {
        if (shortest_[at(to)] == none) continue;
        links_.clear();
        for (int label = shortest_[at(to)]; label != 0; label = labels_[at(label)].before)
            links_.push_back(labels_[at(label)].link);
        std::reverse(links_.begin(), links_.end());
        if (!found({from_, to, labels_[at(shortest_[at(to)])].rtt_ms, links_})) return false;
    }
    return true;
}

bool Search::run(int from, const std::function<bool(const Route &)> &found) {
    if (graph_.edges[at(from)].size() + 1 >= graph_.edges.size()) return true; // linked to all others
    from_ = from;
    find_widths();
    find_levels();
    if (missing_ == 0) return true;
    find_shortest();
    return tell(found);
}

} // namespace

void find_routes(Graph graph, const std::function<bool(const Route &)> &found) {
    for (auto &edges : graph.edges)
        std::stable_sort(edges.begin(), edges.end(),
                         [](const Edge &a, const Edge &b) { return a.width > b.width; });
    Search search(graph);
    for (int from = 0; from < static_cast<int>(graph.edges.size()); ++from)
        if (!search.run(from, found)) return;
}

} // namespace spider::federation
