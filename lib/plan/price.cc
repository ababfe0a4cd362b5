// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/price.h"

#include "model/trainer.h"
#include "plan/flows.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace spider::plan {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// First layer of each stage, and one more: the number of layers.
std::vector<int> first_layers(const Web &web) {
    std::vector<int> first{0};
    for (const int count : web.layers)
        first.push_back(first.back() + count);
    return first;
}

bool has_room(const Problem &problem, const Web &web) {
    std::vector<int> used(problem.size(), 0);
    for (const int site : web.cells)
        used[index(site)] += web.shape.width;
    for (std::size_t i = 0; i < used.size(); ++i)
        if (used[i] > 0 && used[i] > problem.slots(static_cast<int>(i), web.shape.tp)) return false;
    return true;
}

bool is_linked(const Problem &problem, const Web &web) {
    for (int g = 0; g < web.shape.groups; ++g)
        for (int i = 0; i + 1 < web.shape.stages; ++i)
            if (web.at(g, i) != web.at(g, i + 1) && !problem.linked(web.at(g, i), web.at(g, i + 1)))
                return false;
    return true;
}

} // namespace

std::vector<Pipeline> pipelines_of(const Problem &problem, const Web &web) {
    const auto &workload = problem.workload(web.shape.tp);
    const auto first = first_layers(web);
    const auto bytes = workload.boundary();
    if (!is_linked(problem, web)) return {};
    Flows flows(problem);
    for (int g = 0; g < web.shape.groups; ++g) {
        for (int i = 0; i + 1 < web.shape.stages; ++i) {
            const int from = web.at(g, i), to = web.at(g, i + 1);
            if (from == to) continue;
            flows.add(from, to, web.shape.width);
            flows.add(to, from, web.shape.width);
        }
    }
    flows.share();
    std::size_t flow = 0;
    std::vector<Pipeline> pipelines(index(web.shape.groups));
    for (int g = 0; g < web.shape.groups; ++g) {
        auto &pipeline = pipelines[index(g)];
        for (int i = 0; i < web.shape.stages; ++i) {
            const int at = web.at(g, i);
            const auto &site = problem.sites()[index(at)];
            const auto times = workload.times(site.gpu, first[index(i)], first[index(i) + 1] - 1);
            pipeline.stages.push_back({times.forward, times.backward});
            if (i + 1 == web.shape.stages) continue;
            const int to = web.at(g, i + 1);
            if (at == to) {
                const auto occupancy = bytes / site.lan_bandwidth;
                pipeline.boundaries.push_back({site.lan_latency, occupancy, site.lan_latency, occupancy});
            } else {
                pipeline.boundaries.push_back(
                    {problem.hop(at, to).latency, bytes * flows.seconds_per_byte(flow),
                     problem.hop(to, at).latency, bytes * flows.seconds_per_byte(flow + 1)});
                flow += 2;
            }
        }
    }
    return pipelines;
}

std::vector<int> depth_caps(const Problem &problem, const Web &web) {
    const auto &workload = problem.workload(web.shape.tp);
    const auto first = first_layers(web);
    const int batches = problem.micro_batches(web.shape.dp());
    std::vector<int> caps;
    for (int i = 0; i < web.shape.stages; ++i) {
        int cap = batches;
        for (int g = 0; g < web.shape.groups; ++g)
            cap =
                std::min(cap, workload.depth_within(problem.sites()[index(web.at(g, i))].gpu, first[index(i)],
                                                    first[index(i) + 1] - 1, web.shape.dp()));
        caps.push_back(cap);
    }
    return caps;
}

std::vector<int> depths_of(const Problem &problem, const Web &web, const std::vector<Pipeline> &pipelines) {
    const auto caps = depth_caps(problem, web);
    for (std::size_t i = 0; i < caps.size(); ++i)
        if (caps[i] < least_depth(problem.spec(), static_cast<int>(i), web.shape.stages,
                                  problem.micro_batches(web.shape.dp())))
            return {};
    const int rule = problem.depth_rule();
    if (rule != depth_fitted) return falling_depths(rule == depth_stages ? web.shape.stages : rule, caps);
    std::vector<int> depths(caps.size(), 1);
    for (const auto &pipeline : pipelines) {
        const auto own = hiding_depths(pipeline, caps);
        for (std::size_t i = 0; i < depths.size(); ++i)
            depths[i] = std::max(depths[i], own[i]);
    }
    return depths;
}

namespace {

// Sites of a stage, in order of groups.
std::vector<int> sites_of_stage(const Web &web, int stage) {
    std::vector<int> sites;
    for (int g = 0; g < web.shape.groups; ++g)
        if (std::find(sites.begin(), sites.end(), web.at(g, stage)) == sites.end())
            sites.push_back(web.at(g, stage));
    return sites;
}

Seconds local_part(const Problem &problem, const Web &web, int stage, Bytes bytes) {
    std::vector<int> members(problem.size(), 0);
    Seconds slowest = 0;
    for (int g = 0; g < web.shape.groups; ++g)
        members[index(web.at(g, stage))] += web.shape.width;
    for (std::size_t i = 0; i < members.size(); ++i)
        if (members[i] > 1)
            slowest =
                std::max(slowest, problem.local_ring(static_cast<int>(i), web.shape.tp, bytes, members[i]));
    return slowest;
}

// Fills gradients and rings: every stage's ring at once.
void price_gradients(const Problem &problem, const Web &web, Priced &priced) {
    const auto first = first_layers(web);
    const auto &workload = problem.workload(web.shape.tp);
    std::vector<Ring> rings;
    Flows flows(problem);
    for (int i = 0; i < web.shape.stages; ++i) {
        const auto bytes = workload.gradient(first[index(i)], first[index(i) + 1] - 1);
        auto ring = best_ring(problem, sites_of_stage(web, i), bytes);
        for (std::size_t n = 0; ring.order.size() > 1 && n < ring.order.size(); ++n)
            flows.add(ring.order[n], ring.order[(n + 1) % ring.order.size()], 1);
        rings.push_back(std::move(ring));
    }
    flows.share();
    std::size_t flow = 0;
    for (int i = 0; i < web.shape.stages; ++i) {
        auto &ring = rings[index(i)];
        const auto bytes = workload.gradient(first[index(i)], first[index(i) + 1] - 1);
        std::vector<RingLink> links;
        for (std::size_t n = 0; ring.order.size() > 1 && n < ring.order.size(); ++n, ++flow) {
            const auto &hop = problem.hop(ring.order[n], ring.order[(n + 1) % ring.order.size()]);
            links.push_back({std::max(hop.seconds_per_byte, flows.seconds_per_byte(flow)), hop.latency});
        }
        const auto between = ring_seconds_over(links, bytes);
        priced.gradients.push_back(web.shape.dp() < 2 ? 0 : local_part(problem, web, i, bytes) + between);
        priced.rings.push_back(std::move(ring.order));
    }
}

// First and last stage of each pipeline hold a copy of tied embeddings and add up its gradients.
Seconds tied_seconds(const Problem &problem, const Web &web) {
    const auto bytes = problem.workload(web.shape.tp).tied_gradient();
    if (bytes <= 0 || web.shape.stages < 2) return 0;
    Flows flows(problem);
    for (int g = 0; g < web.shape.groups; ++g) {
        const int a = web.at(g, 0), b = web.at(g, web.shape.stages - 1);
        if (a == b) continue;
        flows.add(a, b, web.shape.width);
        flows.add(b, a, web.shape.width);
    }
    flows.share();
    Seconds slowest = 0;
    std::size_t flow = 0;
    for (int g = 0; g < web.shape.groups; ++g) {
        const int a = web.at(g, 0), b = web.at(g, web.shape.stages - 1);
        if (a == b) {
            const auto &site = problem.sites()[index(a)];
            slowest = std::max(slowest, bytes / site.lan_bandwidth + 2 * site.lan_latency);
        } else if (!problem.linked(a, b)) {
            return never;
        } else {
            const auto per_byte = std::max(flows.seconds_per_byte(flow), flows.seconds_per_byte(flow + 1));
            slowest = std::max(slowest, bytes * per_byte + 2 * std::max(problem.hop(a, b).latency,
                                                                        problem.hop(b, a).latency));
            flow += 2;
        }
    }
    return slowest;
}

// What decides the iteration: the group whose pipeline is last, and when each stage ends there at the latest.
struct Course {
    std::vector<Seconds> ends; // per stage, the latest of all groups
    std::size_t group = 0;     // whose pipeline ends last
    Seconds pipeline = 0;      // until then
};

Course course_of(const Problem &problem, const Priced &priced, int batches) {
    Course course;
    course.ends.assign(priced.depths.size(), 0);
    for (std::size_t g = 0; g < priced.pipelines.size(); ++g) {
        const auto &pipeline = priced.pipelines[g];
        const auto ends = stage_ends(problem.blocking_sends() ? with_blocking_sends(pipeline) : pipeline,
                                     priced.depths, batches);
        for (std::size_t i = 0; i < ends.size(); ++i) {
            course.ends[i] = std::max(course.ends[i], ends[i]);
            if (ends[i] > course.pipeline) course.pipeline = ends[i], course.group = g;
        }
    }
    return course;
}

// The pipeline's time by its causes; they sum to it.
std::vector<Term> pipeline_terms(const Pipeline &pipeline, Seconds total, int batches) {
    Seconds compute = 0, slowest = 0;
    for (const auto &stage : pipeline.stages)
        compute += stage.both(), slowest = std::max(slowest, stage.both());
    std::vector<Term> terms{{"compute", batches * slowest},
                            {"bubble", compute - slowest},
                            {"first pass over links", one_pass(pipeline) - compute},
                            {"waiting for links", 0}};
    Seconds left = total;
    for (auto &term : terms) {
        term.seconds = std::clamp(term.seconds, 0.0, std::max(left, 0.0));
        left -= term.seconds;
    }
    terms.back().seconds += std::max(left, 0.0);
    return terms;
}

Bottleneck bottleneck_of(const Problem &problem, const Web &web, const Priced &priced, std::size_t group,
                         int batches, Seconds pipeline_seconds) {
    if (priced.iteration.seconds > 2 * pipeline_seconds) return {"gradients", "", ""};
    const auto &pipeline = priced.pipelines[group];
    const auto tau = period(pipeline, priced.depths, batches);
    auto link = index(tau.from);
    if (tau.kind == Period::Kind::round_trip) // the dearest link of the cycle
        for (auto i = link; i < index(tau.to); ++i)
            if (pipeline.boundaries[i].both() > pipeline.boundaries[link].both()) link = i;
    const auto site_at = [&](std::size_t stage) {
        return web.at(static_cast<int>(group), static_cast<int>(stage));
    };
    if (tau.kind != Period::Kind::stage && site_at(link) != site_at(link + 1))
        return {"link", problem.sites()[index(site_at(link))].pool.name,
                problem.sites()[index(site_at(link + 1))].pool.name};
    auto stage = index(tau.from);
    for (auto i = stage; i <= index(tau.to); ++i)
        if (pipeline.stages[i].both() > pipeline.stages[stage].both()) stage = i;
    return {"stage", std::to_string(stage), ""};
}

} // namespace

std::optional<Priced> price(const Problem &problem, const Web &web) {
    if (!has_room(problem, web)) return std::nullopt;
    Priced priced;
    priced.pipelines = pipelines_of(problem, web);
    if (priced.pipelines.empty()) return std::nullopt;
    priced.depths = depths_of(problem, web, priced.pipelines);
    if (priced.depths.empty()) return std::nullopt;
    const auto first = first_layers(web);
    for (std::size_t i = 0; i < priced.depths.size(); ++i)
        priced.memory.push_back(problem.workload(web.shape.tp)
                                    .memory(first[i], first[i + 1] - 1, priced.depths[i], web.shape.dp()));
    price_gradients(problem, web, priced);
    const auto tied = tied_seconds(problem, web);
    const int batches = problem.micro_batches(web.shape.dp());
    const auto course = course_of(problem, priced, batches);
    Seconds reduced = 0;
    for (std::size_t i = 0; i < course.ends.size(); ++i)
        reduced = std::max(reduced, course.ends[i] + priced.gradients[i]);
    priced.iteration.seconds = reduced + tied;
    if (!(priced.iteration.seconds < no_way)) return std::nullopt;
    priced.iteration.terms = pipeline_terms(priced.pipelines[course.group], course.pipeline, batches);
    priced.iteration.terms.push_back({"gradients", reduced - course.pipeline});
    priced.iteration.terms.push_back({"tied embedding", tied});
    priced.iteration.bottleneck = bottleneck_of(problem, web, priced, course.group, batches, course.pipeline);
    return priced;
}

std::int64_t price_steps(const Problem &problem, const Shape &shape) {
    const std::int64_t batches = problem.micro_batches(shape.dp()), cells = shape.cells();
    const std::int64_t stages = shape.stages, groups = shape.groups;
    const auto ring = groups < 6 ? 20 * groups * groups : 4000;
    return batches * cells * 5 / 2 + 20 * cells + 10 * groups * stages * stages + stages * ring;
}

} // namespace spider::plan
