// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/baselines/genetic.h"

#include "plan/baselines/baselines.h"
#include "plan/baselines/dealt.h"

#include <algorithm>
#include <map>

namespace spider::plan {

namespace {

constexpr std::size_t exact_path = 12; // stages; beyond, nearest neighbour and 2-opt

// Augmenting paths over the pairs that are no longer than `most` (Kuhn's algorithm).
class Pairing {
  public:
    Pairing(const std::vector<Seconds> &far, std::size_t size, Seconds most)
        : far_(far), size_(size), most_(most), of_(size, size) {}
    bool complete() {
        for (std::size_t i = 0; i < size_; ++i) {
            seen_.assign(size_, false);
            if (!extend(i)) return false;
        }
        return true;
    }
    [[nodiscard]] std::vector<std::size_t> partners() const {
        std::vector<std::size_t> partner(size_);
        for (std::size_t j = 0; j < size_; ++j)
            partner[of_[j]] = j;
        return partner;
    }

  private:
    bool extend(std::size_t i) {
        for (std::size_t j = 0; j < size_; ++j) {
            if (far_[i * size_ + j] > most_ || seen_[j]) continue;
            seen_[j] = true;
            if (of_[j] == size_ || extend(of_[j])) {
                of_[j] = i;
                return true;
            }
        }
        return false;
    }
    const std::vector<Seconds> &far_;
    std::size_t size_;
    Seconds most_;
    std::vector<std::size_t> of_;
    std::vector<bool> seen_;
};

using Table = std::vector<std::vector<Seconds>>;

// Held and Karp 1962, open, from any stage to any.
std::vector<int> shortest_path(const Table &far) {
    const auto count = far.size();
    const std::size_t sets = std::size_t{1} << count;
    std::vector<Seconds> least(sets * count, never);
    std::vector<std::size_t> from(sets * count, count);
    for (std::size_t i = 0; i < count; ++i)
        least[(std::size_t{1} << i) * count + i] = 0;
    for (std::size_t set = 1; set < sets; ++set)
        for (std::size_t last = 0; last < count; ++last) {
            const auto here = least[set * count + last];
            if (!(here < never)) continue;
            for (std::size_t next = 0; next < count; ++next) {
                if ((set >> next & 1) != 0) continue;
                const auto then = (set | std::size_t{1} << next) * count + next;
                if (here + far[last][next] < least[then])
                    least[then] = here + far[last][next], from[then] = last;
            }
        }
    auto set = sets - 1;
    auto last = static_cast<std::size_t>(
        std::min_element(least.end() - static_cast<std::ptrdiff_t>(count), least.end()) -
        (least.end() - static_cast<std::ptrdiff_t>(count)));
    std::vector<int> path;
    while (last < count) {
        path.push_back(static_cast<int>(last));
        const auto before = from[set * count + last];
        set &= ~(std::size_t{1} << last);
        last = before;
    }
    std::reverse(path.begin(), path.end());
    return path;
}

Seconds length_of(const Table &far, const std::vector<int> &path) {
    Seconds sum = 0;
    for (std::size_t i = 1; i < path.size(); ++i)
        sum += far[static_cast<std::size_t>(path[i - 1])][static_cast<std::size_t>(path[i])];
    return sum;
}

std::vector<int> good_path(const Table &far) {
    std::vector<int> path(far.size());
    for (std::size_t i = 0; i < path.size(); ++i)
        path[i] = static_cast<int>(i);
    for (std::size_t i = 1; i < path.size(); ++i)
        std::iter_swap(
            path.begin() + static_cast<std::ptrdiff_t>(i),
            std::min_element(path.begin() + static_cast<std::ptrdiff_t>(i), path.end(), [&](int a, int b) {
                const auto &row = far[static_cast<std::size_t>(path[i - 1])];
                return row[static_cast<std::size_t>(a)] < row[static_cast<std::size_t>(b)];
            }));
    for (bool better = true; better;) {
        better = false;
        for (std::size_t i = 0; i < path.size(); ++i)
            for (std::size_t j = i + 1; j < path.size(); ++j) {
                auto turned = path;
                std::reverse(turned.begin() + static_cast<std::ptrdiff_t>(i),
                             turned.begin() + static_cast<std::ptrdiff_t>(j) + 1);
                if (length_of(far, turned) < length_of(far, path)) path = turned, better = true;
            }
    }
    return path;
}

} // namespace

GeneticSearch::GeneticSearch(const Problem &problem, const Shape &shape, std::uint64_t seed)
    : problem_(problem), stages_(static_cast<std::size_t>(shape.stages)),
      members_(static_cast<std::size_t>(shape.groups)), all_(all_slots(problem, shape.tp)), random_(seed) {
    const auto &workload = problem.workload(shape.tp);
    const auto gradient = workload.gradient(0, workload.layers() - 1) / shape.stages / shape.groups;
    const auto message = workload.boundary() * problem.micro_batches(shape.dp());
    const auto sites = static_cast<int>(problem.size());
    for (int a = 0; a < sites; ++a)
        for (int b = 0; b < sites; ++b) {
            const auto &ground = problem.sites()[static_cast<std::size_t>(a)];
            const auto &out = problem.hop(a, b), &in = problem.hop(b, a);
            const auto latency = a == b ? ground.lan_latency : std::max(out.latency, in.latency);
            const auto per_byte =
                a == b ? 1 / ground.lan_bandwidth : std::max(out.seconds_per_byte, in.seconds_per_byte);
            gradient_far_.push_back(latency + gradient * per_byte);
            message_far_.push_back(latency + message * per_byte);
        }
}

Seconds GeneticSearch::reduce(const int *group) const {
    Seconds slowest = 0;
    for (std::size_t i = 0; i < members_; ++i) {
        Seconds sum = 0;
        for (std::size_t j = 0; j < members_; ++j)
            if (i != j)
                sum += 2 * gradient_far_[static_cast<std::size_t>(group[i]) * problem_.size() +
                                         static_cast<std::size_t>(group[j])];
        slowest = std::max(slowest, sum);
    }
    return slowest;
}

GeneticSearch::Matching GeneticSearch::match(const int *a, const int *b) const {
    std::vector<Seconds> far(members_ * members_);
    for (std::size_t i = 0; i < members_; ++i)
        for (std::size_t j = 0; j < members_; ++j)
            far[i * members_ + j] = message_far_[static_cast<std::size_t>(a[i]) * problem_.size() +
                                                 static_cast<std::size_t>(b[j])];
    auto lengths = far;
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    const auto least = *std::partition_point(lengths.begin(), lengths.end() - 1, [&](Seconds most) {
        return !Pairing(far, members_, most).complete();
    });
    Pairing pairing(far, members_, least);
    pairing.complete();
    return {least, pairing.partners()};
}

std::vector<std::vector<Seconds>> GeneticSearch::distances(const std::vector<int> &slots) const {
    Table far(stages_, std::vector<Seconds>(stages_, 0));
    for (std::size_t s = 0; s < stages_; ++s)
        for (std::size_t t = 0; t < s; ++t)
            far[s][t] = far[t][s] = match(&slots[s * members_], &slots[t * members_]).longest;
    return far;
}

std::vector<int> GeneticSearch::order_of(const Table &far, Seconds &length) {
    auto path = far.size() <= exact_path ? shortest_path(far) : good_path(far);
    length = length_of(far, path);
    return path;
}

Seconds GeneticSearch::cost(const std::vector<int> &slots) {
    ++evaluations_;
    Seconds slowest = 0, length = 0;
    for (std::size_t s = 0; s < stages_; ++s)
        slowest = std::max(slowest, reduce(&slots[s * members_]));
    order_of(distances(slots), length);
    return slowest + 2 * length;
}

GeneticSearch::Individual GeneticSearch::rated(std::vector<int> slots) {
    const auto cost = this->cost(slots);
    return {std::move(slots), cost};
}

// Five points: between them turns are taken of one parent's slots; the rest is filled in the other's order.
std::vector<int> GeneticSearch::crossed(const Individual &a, const Individual &b) {
    const auto size = a.slots.size();
    std::vector<std::size_t> points;
    for (int i = 0; i < 5; ++i)
        points.push_back(below(size + 1));
    std::sort(points.begin(), points.end());
    std::map<int, int> left;
    for (const int site : a.slots)
        ++left[site];
    std::vector<int> child(size, -1);
    bool take = true;
    for (std::size_t i = 0, point = 0; i < size; ++i) {
        while (point < points.size() && points[point] == i)
            take = !take, ++point;
        if (take) child[i] = a.slots[i], --left[a.slots[i]];
    }
    auto other = b.slots.begin();
    for (auto &site : child) {
        if (site >= 0) continue;
        while (left[*other] == 0)
            ++other;
        site = *other++;
        --left[site];
    }
    return child;
}

// Exchanges two slots of different stages while the slower of the two gets faster.
void GeneticSearch::improve(std::vector<int> &slots) {
    const auto used = stages_ * members_;
    for (std::size_t tries = 0; tries < 2 * members_ && members_ > 1; ++tries) {
        const auto i = below(used), j = below(slots.size());
        if (slots[i] == slots[j] || i / members_ == j / members_) continue;
        const auto worst = [&] {
            const auto one = reduce(&slots[i / members_ * members_]);
            return j < used ? std::max(one, reduce(&slots[j / members_ * members_])) : one;
        };
        const auto before = worst();
        std::swap(slots[i], slots[j]);
        if (worst() > before) std::swap(slots[i], slots[j]);
    }
}

std::vector<int> GeneticSearch::run() {
    if (all_.size() < stages_ * members_) return {};
    std::vector<Individual> alive;
    for (int i = 0; i < population; ++i) {
        auto slots = all_;
        std::shuffle(slots.begin(), slots.end(), random_);
        alive.push_back(rated(std::move(slots)));
    }
    for (int i = population; i < candidates; ++i) {
        const auto a = below(alive.size()), b = below(alive.size());
        auto slots = crossed(alive[a], alive[b]);
        improve(slots);
        auto child = rated(std::move(slots));
        auto &worse = alive[alive[a].cost > alive[b].cost ? a : b];
        if (child.cost < worse.cost) worse = std::move(child);
    }
    const auto &best =
        std::min_element(alive.begin(), alive.end(), [](const Individual &a, const Individual &b) {
            return a.cost < b.cost;
        })->slots;
    Seconds length = 0;
    const auto order = order_of(distances(best), length);
    std::vector<int> placed;
    for (const int stage : order) {
        const auto *group = &best[static_cast<std::size_t>(stage) * members_];
        if (placed.empty()) {
            placed.assign(group, group + members_);
            continue;
        }
        const auto partner = match(&placed[placed.size() - members_], group).partner;
        for (const auto member : partner)
            placed.push_back(group[member]);
    }
    return placed;
}

Result<Plan> genetic(const Federation &federation, const JobSpec &spec, const Options &options) {
    const auto placing = [&](const Problem &problem, const Shape &shape, std::int64_t &evaluations) {
        GeneticSearch search(problem, shape, options.seed);
        auto placed = search.run();
        evaluations += search.evaluations();
        return placed;
    };
    const auto find = [&](const Problem &problem, Seconds) -> Result<Finds> {
        return place_all(problem, placing);
    };
    return compare("genetic", find, federation, with_published_depth(spec), options);
}

} // namespace spider::plan
