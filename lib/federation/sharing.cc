// SPDX-License-Identifier: GPL-3.0-or-later
#include "federation/sharing.h"

#include "federation/federation.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <queue>
#include <unordered_map>

namespace spider::federation {

namespace {

// Progressive filling: all flows rise together; a flow stops at its limit or when something that it crosses
// is full. A resource is full at level left / rising, which only grows as other flows stop, so the queue may
// hold levels that are too low: they are looked at again when they come up.
class Filling {
  public:
    Filling(std::span<const double> capacities, std::span<const Flow> flows);
    std::vector<double> run();

  private:
    struct Resource {
        double left = 0;      // not used by flows that have stopped
        double rising = 0;    // flows that have not
        std::size_t next = 0; // end of its flows in flows_of_
    };
    using Level = std::pair<double, int>;

    [[nodiscard]] double level(int resource) const;
    void stop(std::size_t flow, double rate);
    void stop_limited(double level);
    static std::size_t at(int index) { return static_cast<std::size_t>(index); }

    std::span<const Flow> flows_;
    std::vector<Resource> resources_;
    std::vector<std::size_t> flows_of_; // of each resource, one after the other
    std::vector<std::size_t> by_limit_; // flows that have a limit, lowest first
    std::size_t limited_ = 0;           // those of by_limit_ looked at
    std::vector<double> rates_;
    std::vector<bool> stopped_;
};

Filling::Filling(std::span<const double> capacities, std::span<const Flow> flows)
    : flows_(flows), resources_(capacities.size()),
      rates_(flows.size(), std::numeric_limits<double>::infinity()), stopped_(flows.size()) {
    std::size_t crossings = 0;
    for (const auto &flow : flows) {
        assert(flow.count > 0);
        for (const int resource : flow.resources) {
            resources_[at(resource)].rising += flow.count;
            ++resources_[at(resource)].next;
        }
        crossings += flow.resources.size();
    }
    flows_of_.resize(crossings);
    std::size_t end = 0;
    for (std::size_t i = 0; i < resources_.size(); ++i) {
        resources_[i].left = capacities[i];
        end += resources_[i].next;
        resources_[i].next = end;
    }
    for (std::size_t i = flows.size(); i-- > 0;) {
        for (const int resource : flows[i].resources)
            flows_of_[--resources_[at(resource)].next] = i;
        if (flows[i].limit < std::numeric_limits<double>::infinity()) by_limit_.push_back(i);
    }
    std::sort(by_limit_.begin(), by_limit_.end(),
              [&](std::size_t a, std::size_t b) { return flows_[a].limit < flows_[b].limit; });
}

double Filling::level(int resource) const {
    const auto &it = resources_[at(resource)];
    return std::max(it.left, 0.0) / it.rising;
}

void Filling::stop(std::size_t flow, double rate) {
    if (stopped_[flow]) return;
    stopped_[flow] = true;
    rates_[flow] = rate;
    for (const int resource : flows_[flow].resources) {
        resources_[at(resource)].left -= rate * flows_[flow].count;
        resources_[at(resource)].rising -= flows_[flow].count;
    }
}

void Filling::stop_limited(double level) {
    for (; limited_ < by_limit_.size() && flows_[by_limit_[limited_]].limit <= level; ++limited_)
        stop(by_limit_[limited_], flows_[by_limit_[limited_]].limit);
}

std::vector<double> Filling::run() {
    std::vector<Level> levels;
    for (int i = 0; i < static_cast<int>(resources_.size()); ++i)
        if (resources_[at(i)].rising > 0) levels.emplace_back(level(i), i);
    std::priority_queue<Level, std::vector<Level>, std::greater<>> queue({}, std::move(levels));
    while (!queue.empty()) {
        const auto [seen, resource] = queue.top();
        queue.pop();
        stop_limited(seen);
        if (resources_[at(resource)].rising <= 0) continue;
        if (const double now = level(resource); now > seen) {
            queue.emplace(now, resource);
            continue;
        }
        const auto end =
            at(resource) + 1 < resources_.size() ? resources_[at(resource) + 1].next : flows_of_.size();
        for (auto i = resources_[at(resource)].next; i < end; ++i)
            stop(flows_of_[i], seen);
    }
    stop_limited(std::numeric_limits<double>::max());
    return std::move(rates_);
}

} // namespace

std::vector<double> max_min(std::span<const double> capacities, std::span<const Flow> flows) {
    return Filling(capacities, flows).run();
}

std::vector<double> share(const Federation &federation, std::span<const Traffic> traffic) {
    // Only what is crossed counts: a federation may have a million links.
    std::unordered_map<int, int> known;
    std::vector<double> capacities;
    std::vector<int> crossed;
    std::vector<std::size_t> starts;
    for (const auto &one : traffic) {
        starts.push_back(crossed.size());
        for (const int resource : federation.resources(one.from, one.to)) {
            const auto [it, fresh] = known.emplace(resource, static_cast<int>(capacities.size()));
            if (fresh) capacities.push_back(federation.capacity(resource));
            crossed.push_back(it->second);
        }
    }
    starts.push_back(crossed.size());
    std::vector<Flow> flows;
    for (std::size_t i = 0; i < traffic.size(); ++i) {
        const std::span resources(crossed.data() + starts[i], starts[i + 1] - starts[i]);
        const bool no_way = resources.empty() && traffic[i].from != traffic[i].to;
        flows.push_back({resources, no_way ? 0 : traffic[i].limit, traffic[i].count});
    }
    return max_min(capacities, flows);
}

} // namespace spider::federation
