// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/field.h"

#include <algorithm>

namespace spider::plan {

namespace {

bool asked_for(const JobSpec &spec, const std::string &site) {
    return spec.sites.empty() || std::find(spec.sites.begin(), spec.sites.end(), site) != spec.sites.end();
}

} // namespace

Field field_of(const Federation &federation, const JobSpec &spec, const Limits &limits, Seconds after) {
    Field field;
    for (const auto &site : federation.sites()) {
        const bool home = site.name == spec.home;
        if (!asked_for(spec, site.name)) continue;
        auto pool = pool_of(after > 0 ? as_of(site, after) : site, limits);
        auto trouble = trouble_with(site);
        if (trouble.empty() && pool.nodes.empty()) trouble = "has no free GPU";
        if (trouble.empty()) {
            if (home) field.home = static_cast<int>(field.pools.size());
            field.pools.push_back(std::move(pool));
        } else if (home || !spec.sites.empty()) {
            if (field.trouble.empty())
                field.trouble = (home ? "home site " : "site ") + site.name + " " + trouble;
        }
    }
    if (field.trouble.empty() && field.pools.empty()) field.trouble = "no site has a free GPU";
    return field;
}

} // namespace spider::plan
