// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/traffic.h"

#include "plan/workload.h"

#include <map>
#include <utility>

namespace spider::plan {

namespace {

class Sum {
  public:
    void add(const std::string &from, const std::string &to, Bytes bytes) {
        if (from != to && bytes > 0) sums_[{from, to}] += bytes;
    }
    [[nodiscard]] std::vector<Traffic> all() const {
        std::vector<Traffic> all;
        for (const auto &[ends, bytes] : sums_)
            all.push_back({ends.first, ends.second, bytes});
        return all;
    }

  private:
    std::map<std::pair<std::string, std::string>, Bytes> sums_;
};

std::map<Slot, std::string> sites_of_slots(const Plan &plan) {
    std::map<Slot, std::string> sites;
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                sites[slot] = part.site;
    return sites;
}

void add_ring(Sum &sum, const Stage &stage, Bytes gradient) {
    const auto sites = stage.ring.size();
    if (sites < 2) return;
    const auto count = static_cast<double>(sites);
    for (std::size_t i = 0; i < sites; ++i)
        sum.add(stage.ring[i], stage.ring[(i + 1) % sites], 2 * (count - 1) / count * gradient);
}

} // namespace

std::vector<Traffic> traffic(const JobSpec &spec, const Plan &plan) {
    const Workload workload(spec, plan.tp, {});
    const auto sites = sites_of_slots(plan);
    Sum sum;
    for (const auto &passage : plan.passages) {
        const auto &from = sites.at({passage.stage, passage.dp});
        const auto &to = sites.at({passage.stage + 1, passage.dp});
        sum.add(from, to, workload.boundary() * plan.micro_batches);
        sum.add(to, from, workload.boundary() * plan.micro_batches);
    }
    for (const auto &stage : plan.stages)
        add_ring(sum, stage, workload.gradient(stage.first_layer, stage.last_layer));
    for (int d = 0; d < plan.dp && plan.pp > 1; ++d) {
        const auto &first = sites.at({0, d});
        const auto &last = sites.at({plan.pp - 1, d});
        sum.add(first, last, workload.tied_gradient());
        sum.add(last, first, workload.tied_gradient());
    }
    return sum.all();
}

} // namespace spider::plan
