// SPDX-License-Identifier: GPL-3.0-or-later
// A part's carriers for the tests of the plugin's values.
#pragma once

#include "spank/carriers.h"
#include "spank/rank.h"

#include <map>
#include <optional>
#include <string>

namespace spider::spank {

using Variables = std::map<std::string, std::string>;

inline Lookup in(const Variables &variables) {
    return [&variables](const char *name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    };
}

// TP=2, two stages, two members: 8 ranks; this part has one node with two slots, one with one.
inline Variables a_part() {
    return {{carrier::job, "s1-17"},      {carrier::attempt, "3"},
            {carrier::site, "s2"},        {carrier::world, "8"},
            {carrier::tp, "2"},           {carrier::pp, "2"},
            {carrier::dp, "2"},           {carrier::slots, "1.0,1.1/0.1"},
            {carrier::layers, "0-5,6-7"}, {carrier::node_ranks, "2,1"},
            {carrier::nnodes, "3"},       {carrier::depths, "4,1"},
            {carrier::micro_batch, "2"},  {carrier::micro_batches, "8"}};
}

inline std::map<std::string, std::string> environment_of(const Carriers &carriers, Place place) {
    place.nodes.resize(carriers.nodes.size());
    for (std::size_t node = 0; node < place.nodes.size(); ++node)
        place.nodes[node] = "n" + std::to_string(node);
    std::map<std::string, std::string> found;
    for (const auto &[name, value] : rank_environment(carriers, Master{"10.0.0.1", 29501}, place))
        found[name] = value;
    return found;
}

} // namespace spider::spank
