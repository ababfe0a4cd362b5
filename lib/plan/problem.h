// SPDX-License-Identifier: GPL-3.0-or-later
// What a search stands on: the sites that may take part, what lies between them, and what the model costs on
// their GPUs. Built once per search; the searches only read it.
#pragma once

#include "plan/capacity.h"
#include "plan/workload.h"

#include <limits>
#include <map>
#include <memory>
#include <span>

namespace spider::plan {

constexpr std::size_t most_near = 10;
constexpr Seconds never = std::numeric_limits<double>::infinity();

// One site as a search sees it, at its index.
struct Ground {
    Pool pool;
    int gpu = 0; // index into Problem::gpus
    bool routable = true;
    bool required = false; // the home site, and every site that the user names
    double lan_bandwidth;  // bytes/s between nodes of the site
    Seconds lan_latency = 0;
};

// Where there is no way, so long that no web with one is faster than one without: a search may come through
// it.
constexpr Seconds no_way = 1e9;

// Between two sites, one way; `no_way` unless both ways are known and both sites are routable.
struct Hop {
    Seconds latency = no_way;
    double seconds_per_byte = 0;        // of one flow that is alone
    double seconds_per_shared_byte = 0; // of the narrowest thing that flows share
    // Of `flows` equal flows between the two, nobody else being there.
    [[nodiscard]] double shared(double flows) const {
        const double part = flows * seconds_per_shared_byte;
        return part > seconds_per_byte ? part : seconds_per_byte;
    }
};

class Problem {
  public:
    // Both are borrowed. `pools`: usable sites with free GPUs; `home`: index into them, or -1.
    Problem(const Federation &federation, const JobSpec &spec, const std::vector<Pool> &pools, int home);

    [[nodiscard]] const Federation &federation() const { return federation_; }
    [[nodiscard]] const JobSpec &spec() const { return spec_; }
    [[nodiscard]] const std::vector<Ground> &sites() const { return sites_; }
    [[nodiscard]] const std::vector<GpuType> &gpus() const { return gpus_; }
    [[nodiscard]] int home() const { return home_; }
    [[nodiscard]] std::size_t size() const { return sites_.size(); }

    [[nodiscard]] const Hop &hop(int from, int to) const {
        return hops_[static_cast<std::size_t>(from) * sites_.size() + static_cast<std::size_t>(to)];
    }
    // What a search that comes through a missing link takes it for: the worst of all that there are.
    [[nodiscard]] const Hop &worst_hop() const { return worst_; }
    [[nodiscard]] bool linked(int a, int b) const { return hop(a, b).latency < no_way; }
    // The sites that are nearest to it for messages of a pipeline, nearest first; at most `most_near`.
    [[nodiscard]] std::span<const int> near(int site) const { return near_[static_cast<std::size_t>(site)]; }
    [[nodiscard]] const Workload &workload(int tp) const;
    [[nodiscard]] int slots(int site, int tp) const; // tensor-parallel groups that the site has room for
    [[nodiscard]] std::vector<int> tensor_sizes() const;
    [[nodiscard]] int micro_batches(int dp) const { return spec_.global_batch / (spec_.micro_batch * dp); }
    [[nodiscard]] bool blocking_sends() const;
    [[nodiscard]] int depth_rule() const; // depth_fitted, depth_stages, or the first stage's depth

    // Ring all-reduce of `bytes` over `members` slots of one site.
    [[nodiscard]] Seconds local_ring(int site, int tp, Bytes bytes, int members) const;

  private:
    void find_near();

    const Federation &federation_;
    const JobSpec &spec_;
    int home_;
    std::vector<Ground> sites_;
    std::vector<GpuType> gpus_;
    std::vector<Hop> hops_;
    Hop worst_{0, 0, 0};
    std::vector<std::vector<int>> near_;
    std::map<int, Workload> workloads_;
    std::map<int, std::vector<int>> slots_;
};

} // namespace spider::plan
