// SPDX-License-Identifier: GPL-3.0-or-later
// The exact price against a reckoning of its own: 1F1B event by event, every order of every ring, and water
// filled drop by drop into links and gateways; and against cases worked by hand.
#include "plan/price.h"

#include "pipeline_simulation.h"
#include "random_webs.h"

#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace spider::plan {
namespace {

constexpr double lan_bytes = 12.5e9, lan_seconds = 20e-6; // 100 Gbit/s where a site does not say

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Reads sites and links as they were given, nothing that the planner made of them.
class Reckoning {
  public:
    Reckoning(const Case &it, const Web &web, const Priced &priced)
        : it_(it), web_(web), priced_(priced), work_(it.problem.workload(web.shape.tp)) {
        for (const auto &link : it.federation.links())
            links_[{link.from.value, link.to.value}] = link;
        for (const int count : web.layers)
            first_.push_back(first_.back() + count);
    }

    Seconds iteration() const {
        std::vector<Seconds> ends(web_.layers.size(), 0);
        for (const auto &pipeline : pipelines()) {
            const auto own = Simulation(pipeline, priced_.depths, batches(),
                                        it_.problem.blocking_sends() ? Sends::blocking : Sends::async)
                                 .ends();
            for (std::size_t i = 0; i < own.size(); ++i)
                ends[i] = std::max(ends[i], own[i]);
        }
        const auto reduce = gradients();
        Seconds last = 0;
        for (std::size_t i = 0; i < ends.size(); ++i)
            last = std::max(last, ends[i] + reduce[i]);
        return last + tied();
    }

    // Depths that are given, under what memory allows; of fitted ones only the latter.
    void expect_depths() const {
        int before = batches();
        for (int i = 0; i < web_.shape.stages; ++i) {
            int cap = before;
            for (int g = 0; g < web_.shape.groups; ++g)
                while (cap > 0 && memory(i, cap) > type(web_.at(g, i)).memory)
                    --cap;
            const int depth = priced_.depths[index(i)], rule = it_.spec.depth;
            if (rule == depth_of_trainer)
                EXPECT_LE(depth, cap);
            else
                EXPECT_EQ(depth,
                          std::max(1, std::min(cap, (rule == depth_stages ? web_.shape.stages : rule) - i)));
            EXPECT_DOUBLE_EQ(priced_.memory[index(i)], memory(i, depth));
            before = depth;
        }
    }

    // No order of a stage's sites is shorter on links that nobody else uses.
    void expect_best_rings() const {
        for (int i = 0; i < web_.shape.stages; ++i) {
            auto order = priced_.rings[index(i)];
            std::set<int> members;
            for (int g = 0; g < web_.shape.groups; ++g)
                members.insert(web_.at(g, i));
            EXPECT_EQ(std::set<int>(order.begin(), order.end()), members);
            EXPECT_EQ(order.size(), members.size());
            const auto chosen = ring(order, gradient(i), {});
            std::sort(order.begin(), order.end());
            Seconds least = never;
            do
                least = std::min(least, ring(order, gradient(i), {}));
            while (std::next_permutation(order.begin(), order.end()));
            EXPECT_DOUBLE_EQ(chosen, least);
        }
    }

  private:
    struct Flow {
        int from, to, count;
        double rate = 0; // bytes/s of each
        bool full = false;
    };

    [[nodiscard]] int batches() const {
        return it_.spec.global_batch / it_.spec.micro_batch / (web_.shape.groups * web_.shape.width);
    }
    [[nodiscard]] const Site &at(int site) const { return it_.federation.sites()[index(site)]; }
    [[nodiscard]] const GpuType &type(int site) const { return at(site).classes[0].gpu; }
    [[nodiscard]] int gpu(int site) const {
        const auto &all = it_.problem.gpus();
        return static_cast<int>(std::find(all.begin(), all.end(), type(site)) - all.begin());
    }
    [[nodiscard]] Bytes memory(int stage, int depth) const {
        return work_.memory(first_[index(stage)], first_[index(stage) + 1] - 1, depth, web_.shape.dp());
    }
    [[nodiscard]] Bytes gradient(int stage) const {
        return work_.gradient(first_[index(stage)], first_[index(stage) + 1] - 1);
    }
    [[nodiscard]] Seconds latency(int from, int to) const { return links_.at({from, to}).rtt_ms / 2000; }

    // All rates rise together; a flow stops when something that it crosses is full.
    [[nodiscard]] std::vector<double> rates(std::vector<Flow> flows) const {
        std::map<std::string, double> room;
        const auto crossed = [&](const Flow &flow) {
            const auto name = [](const char *what, int a) { return what + std::to_string(a); };
            std::vector<std::string> names{name("", flow.from) + name("->", flow.to)};
            room.emplace(names[0], links_.at({flow.from, flow.to}).bandwidth_gbps / 8 * 1e9);
            if (const double cap = at(flow.from).uplink_gbps; cap > 0)
                room.emplace(names.emplace_back(name("up", flow.from)), cap / 8 * 1e9);
            if (const double cap = at(flow.to).downlink_gbps; cap > 0)
                room.emplace(names.emplace_back(name("down", flow.to)), cap / 8 * 1e9);
            return names;
        };
        for (;;) {
            std::map<std::string, int> rising;
            for (const auto &flow : flows)
                for (const auto &name : crossed(flow))
                    rising[name] += flow.full ? 0 : flow.count;
            double step = never;
            for (const auto &[name, count] : rising)
                if (count > 0) step = std::min(step, room[name] / count);
            if (!(step < never)) break;
            for (auto &flow : flows)
                if (!flow.full) flow.rate += step;
            for (const auto &[name, count] : rising)
                room[name] -= step * count;
            for (auto &flow : flows)
                for (const auto &name : crossed(flow))
                    flow.full = flow.full || room[name] < 1e-3; // bytes/s: rounding
        }
        std::vector<double> found;
        for (const auto &flow : flows)
            found.push_back(flow.rate);
        return found;
    }

    [[nodiscard]] std::vector<Pipeline> pipelines() const {
        std::vector<Flow> flows;
        const auto each_hop = [&](const auto &act) {
            for (int g = 0; g < web_.shape.groups; ++g)
                for (int i = 0; i + 1 < web_.shape.stages; ++i)
                    act(g, i, web_.at(g, i), web_.at(g, i + 1));
        };
        each_hop([&](int, int, int a, int b) {
            if (a == b) return;
            flows.push_back({a, b, web_.shape.width});
            flows.push_back({b, a, web_.shape.width});
        });
        const auto rate = rates(flows);
        std::vector<Pipeline> all(index(web_.shape.groups));
        for (int g = 0; g < web_.shape.groups; ++g)
            for (int i = 0; i < web_.shape.stages; ++i) {
                const auto time = work_.times(gpu(web_.at(g, i)), first_[index(i)], first_[index(i) + 1] - 1);
                all[index(g)].stages.push_back({time.forward, time.backward});
            }
        std::size_t flow = 0;
        each_hop([&](int g, int, int a, int b) {
            const auto bytes = work_.boundary();
            if (a == b) {
                all[index(g)].boundaries.push_back(
                    {lan_seconds, bytes / lan_bytes, lan_seconds, bytes / lan_bytes});
                return;
            }
            all[index(g)].boundaries.push_back(
                {latency(a, b), bytes / rate[flow], latency(b, a), bytes / rate[flow + 1]});
            flow += 2;
        });
        return all;
    }

    // Each of k sites sends k-th parts to the next, 2(k-1) times, message by message: a part is sent when it
    // has come and the link is free.
    [[nodiscard]] Seconds simulated_ring(const std::vector<int> &order, Bytes bytes,
                                         const std::vector<double> &rate) const {
        struct Message {
            Seconds comes;
            std::size_t site, step;
            bool operator>(const Message &other) const { return comes > other.comes; }
        };
        const auto k = order.size();
        if (k < 2) return 0;
        std::priority_queue<Message, std::vector<Message>, std::greater<>> under_way;
        std::vector<Seconds> free(k, 0);
        for (std::size_t n = 0; n < k; ++n)
            under_way.push({0, n, 0});
        Seconds now = 0;
        while (!under_way.empty()) {
            const auto [comes, site, step] = under_way.top();
            under_way.pop();
            now = comes;
            if (step == 2 * (k - 1)) continue;
            free[site] = std::max(free[site], comes) + bytes / static_cast<double>(k) / rate[site];
            const auto next = (site + 1) % k;
            under_way.push({free[site] + latency(order[site], order[next]), next, step + 1});
        }
        return now;
    }

    // What no ring exceeds, and the order is chosen by. `rate`: of each step, empty: alone.
    [[nodiscard]] Seconds ring(const std::vector<int> &order, Bytes bytes,
                               const std::vector<double> &rate) const {
        const auto k = order.size();
        Seconds step = 0, longest = 0;
        for (std::size_t n = 0; n < k && k > 1; ++n) {
            const int from = order[n], to = order[(n + 1) % k];
            if (!links_.contains({from, to})) return never;
            const auto alone = rate.empty() ? rates({{from, to, 1}})[0] : rate[n];
            step = std::max(step, bytes / static_cast<double>(k) / alone);
            longest = std::max(longest, latency(from, to));
        }
        return k < 2 ? 0 : 2 * static_cast<double>(k - 1) * (step + longest);
    }

    [[nodiscard]] std::vector<Seconds> gradients() const {
        std::vector<Flow> flows;
        for (const auto &order : priced_.rings)
            for (std::size_t n = 0; n < order.size() && order.size() > 1; ++n)
                flows.push_back({order[n], order[(n + 1) % order.size()], 1});
        const auto rate = rates(flows);
        std::vector<Seconds> all;
        auto next = rate.begin();
        for (int i = 0; i < web_.shape.stages; ++i) {
            const auto &order = priced_.rings[index(i)];
            const auto steps = static_cast<std::ptrdiff_t>(order.size() > 1 ? order.size() : 0);
            const auto between = simulated_ring(order, gradient(i), {next, next + steps});
            EXPECT_LE(between, ring(order, gradient(i), {next, next + steps}) * (1 + 1e-9));
            next += steps;
            std::map<int, int> members;
            for (int g = 0; g < web_.shape.groups; ++g)
                members[web_.at(g, i)] += web_.shape.width;
            Seconds within = 0; // a ring of the members of each site, over its network
            for (const auto &[site, n] : members)
                within = std::max(within, 2.0 * (n - 1) * (gradient(i) / n / lan_bytes + lan_seconds));
            all.push_back(between + within);
        }
        return all;
    }

    [[nodiscard]] Seconds tied() const {
        const auto bytes = work_.tied_gradient();
        if (bytes <= 0 || web_.shape.stages < 2) return 0;
        std::vector<Flow> flows;
        Seconds slowest = 0;
        for (int g = 0; g < web_.shape.groups; ++g) {
            const int a = web_.at(g, 0), b = web_.at(g, web_.shape.stages - 1);
            if (a == b) slowest = std::max(slowest, bytes / lan_bytes + 2 * lan_seconds);
            if (a != b) flows.push_back({a, b, web_.shape.width}), flows.push_back({b, a, web_.shape.width});
        }
        const auto rate = rates(flows);
        for (std::size_t n = 0; n < flows.size(); n += 2) { // two halves each way; both directions at once
            const auto there = latency(flows[n].from, flows[n].to),
                       back = latency(flows[n].to, flows[n].from);
            slowest = std::max(slowest, bytes / std::min(rate[n], rate[n + 1]) + 2 * std::max(there, back));
        }
        return slowest;
    }

    const Case &it_;
    const Web &web_;
    const Priced &priced_;
    const Workload &work_;
    std::map<std::pair<int, int>, Link> links_;
    std::vector<int> first_{0};
};

Case random_price_case(Chance &chance, bool gateways) {
    static const std::vector<ModelSpec> models{model_of_file("bench-13b"), llama_13b(),
                                               model_of_file("gemma-2-9b"), model_of_file("llama-3.2-1b")};
    const int count = chance.pick(1, 7);
    auto sites = random_sites(chance, count, 6, {"a100", "h100", "h200"});
    for (auto &site : sites) {
        if (gateways && chance.one_in(2)) site.uplink_gbps = chance.spread(0.5, 20);
        if (gateways && chance.one_in(2)) site.downlink_gbps = chance.spread(0.5, 20);
    }
    const auto links = random_links(chance, count, chance.one_in(4));
    return {*Federation::make(std::move(sites), links), random_job(chance, models)};
}

void expect_prices_of_random_webs(unsigned seed, bool gateways) {
    Chance chance(seed);
    int priced_webs = 0, crossing = 0;
    for (int round = 0; round < 1500; ++round) {
        const auto it = random_price_case(chance, gateways);
        const auto web = random_web(chance, it.problem,
                                    {8, chance.pick(1, 5), 1 << chance.pick(0, 2), 1 << chance.pick(0, 1)});
        if (web.cells.empty()) continue;
        const auto priced = price(it.problem, web);
        if (!priced) continue;
        const Reckoning by_hand(it, web, *priced);
        by_hand.expect_depths();
        by_hand.expect_best_rings();
        EXPECT_NEAR(priced->iteration.seconds / by_hand.iteration(), 1, 1e-9) << "round " << round;
        ++priced_webs, crossing += std::set<int>(web.cells.begin(), web.cells.end()).size() > 2;
    }
    EXPECT_GT(priced_webs, 300);
    EXPECT_GT(crossing, 150);
}

TEST(Price, OfRandomWebsIsTheSimulatedOne) { expect_prices_of_random_webs(1, false); }

TEST(Price, OfRandomWebsBehindGatewaysIsTheSimulatedOne) { expect_prices_of_random_webs(2, true); }

// Layers of 1 s forward and 2 s backward; a boundary takes 1 s of 10 Gbit/s, a layer's gradient 2 s.
class PriceByHand : public testing::Test {
  protected:
    static constexpr double hop = 0.010, half_second_lan = 0.2 + 2 * lan_seconds; // ring of 2, one layer
    std::vector<Site> sites{site("s1", 2, 8), site("s2", 2, 8), site("s3", 1, 8)};
    double s2_to_s3 = 10;

    [[nodiscard]] Seconds priced(int batches, const Shape &shape, std::vector<int> cells) const {
        ModelSpec model;
        model.layers = 2;
        model.costs = {.times = {{"", {1}, {2}}},
                       .boundary = 1.25e9,
                       .gradient = {2.5e9},
                       .state = {},
                       .activation = {}};
        auto spec = job(model, batches * shape.dp(), "");
        spec.sequence = 1, spec.depth = depth_stages;
        std::vector<Link> links;
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                if (i != j) links.push_back({SiteId{i}, SiteId{j}, i + j == 3 ? s2_to_s3 : 10, 20});
        const Case it(*Federation::make(sites, links), spec);
        const auto layers = shape.stages == 2 ? std::vector{1, 1} : std::vector{2};
        const auto priced = price(it.problem, {shape, std::move(cells), layers});
        return priced ? priced->iteration.seconds : never;
    }
};

TEST_F(PriceByHand, TwoSitesAndOneBoundary) {
    EXPECT_NEAR(priced(1, {8, 2, 1, 1}, {0, 1}), 1 + (1 + hop) + 1 + 2 + (1 + hop) + 2, 1e-9);
    // s1: F0 0-1, F1 1-2, B0 6.02-8.02, B1 9.02-11.02. s2: F0 2.01, B0 3.01, F1 5.01, B1 6.01-8.01.
    EXPECT_NEAR(priced(2, {8, 2, 1, 1}, {0, 1}), 11.02, 1e-9);
}

TEST_F(PriceByHand, TwoPipelinesOverOneLinkGetHalfOfIt) {
    const auto expected = 1 + (2 + hop) + 1 + 2 + (2 + hop) + 2 + half_second_lan;
    EXPECT_NEAR(priced(1, {8, 2, 1, 2}, {0, 1}), expected, 1e-9);
    EXPECT_NEAR(priced(1, {8, 2, 2, 1}, {0, 1, 0, 1}), expected, 1e-9) << "however they are grouped";
}

TEST_F(PriceByHand, ARingOfTwoSendsHalvesTwice) {
    EXPECT_NEAR(priced(1, {8, 1, 2, 1}, {0, 1}), 2 + 4 + 2 * (2 + hop), 1e-9);
    s2_to_s3 = 5;
    EXPECT_NEAR(priced(1, {8, 1, 2, 1}, {1, 2}), 2 + 4 + 2 * (4 + hop), 1e-9);
}

TEST_F(PriceByHand, ALateStageHasSlackForItsRing) {
    // Stage 0 twice at s1, ends at 8.02; stage 1 at s2 and s3, ends at 5.01.
    const std::vector cells{0, 1, 0, 2};
    EXPECT_NEAR(priced(1, {8, 2, 2, 1}, cells), 8.02 + half_second_lan, 1e-9) << "5.01 + 2.02 is before";
    s2_to_s3 = 5;
    EXPECT_NEAR(priced(1, {8, 2, 2, 1}, cells), 5.01 + 2 * (2 + hop), 1e-9);
}

TEST_F(PriceByHand, ASharedUplinkHalvesTheRate) {
    sites[0].uplink_gbps = 10; // activations to s2 and s3 share it, gradients back do not
    EXPECT_NEAR(priced(1, {8, 2, 2, 1}, {0, 1, 0, 2}), 9.02 + half_second_lan, 1e-9);
    sites[0].downlink_gbps = 10;
    EXPECT_NEAR(priced(1, {8, 2, 2, 1}, {0, 1, 0, 2}), 10.02 + half_second_lan, 1e-9);
}

TEST_F(PriceByHand, WhatCannotRunHasNoPrice) {
    EXPECT_EQ(priced(1, {8, 2, 2, 1}, {2, 0, 2, 1}), never) << "s3 has one slot";
    EXPECT_EQ(priced(1, {8, 2, 1, 2}, {2, 0}), never);
    sites[1].routable = false;
    EXPECT_EQ(priced(1, {8, 2, 1, 1}, {0, 1}), never);
    EXPECT_NEAR(priced(1, {8, 2, 1, 1}, {1, 1}), 6 + 2 * (0.1 + lan_seconds), 1e-9);
}

} // namespace
} // namespace spider::plan
