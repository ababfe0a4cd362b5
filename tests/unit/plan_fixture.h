// SPDX-License-Identifier: GPL-3.0-or-later
// Small federations and jobs for the planner's tests.
#pragma once

#include "federation/federation.h"
#include "model/gpu_table.h"

#include <string>
#include <vector>

namespace spider::plan {

inline Site site(const std::string &name, int nodes, int gpus, const char *gpu = "h100") {
    Site site{.name = name};
    site.classes = {{*model::gpu_type_named(gpu), nodes, nodes, gpus, gpus}};
    return site;
}

// Every pair of sites linked both ways.
inline Federation clique(std::vector<Site> sites, double gbps = 10, double rtt_ms = 20) {
    std::vector<Link> links;
    for (int i = 0; i < static_cast<int>(sites.size()); ++i)
        for (int j = 0; j < static_cast<int>(sites.size()); ++j)
            if (i != j) links.push_back({SiteId{i}, SiteId{j}, gbps, rtt_ms});
    return *Federation::make(std::move(sites), links);
}

inline ModelSpec llama_13b() {
    return {"LlamaForCausalLM", 40, 5120, 13824, 40, 40, 128, 32000, 0, true, false};
}
inline ModelSpec llama_70b() {
    return {"LlamaForCausalLM", 80, 8192, 28672, 64, 8, 128, 128256, 0, true, false};
}
inline ModelSpec gpt2() { return {"GPT2LMHeadModel", 12, 768, 3072, 12, 12, 64, 50257, 1024, false, true}; }

inline JobSpec job(const ModelSpec &model, int global_batch = 64, const std::string &home = "s1") {
    JobSpec spec{.model_name = "llama-13b.json", .model = model};
    spec.sequence = model.positions > 0 ? model.positions : 4096;
    spec.global_batch = global_batch;
    spec.home = home;
    return spec;
}

} // namespace spider::plan
