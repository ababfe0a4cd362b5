// SPDX-License-Identifier: GPL-3.0-or-later
// An immutable snapshot of sites and links, shared as shared_ptr<const Federation>. Any thread.
#pragma once

#include "model/json.h"
#include "model/site.h"

#include <optional>
#include <string_view>
#include <vector>

namespace spider::federation {

class Federation {
  public:
    // Errors: a link that names a site outside `sites`, a bandwidth <= 0, an RTT < 0, two sites of one name.
    static Result<Federation> make(std::vector<Site> sites, const std::vector<Link> &links);

    [[nodiscard]] const std::vector<Site> &sites() const { return sites_; }
    [[nodiscard]] const Site *site(std::string_view name) const;
    [[nodiscard]] const Site &site(SiteId id) const { return sites_[static_cast<std::size_t>(id.value)]; }
    [[nodiscard]] std::optional<Link> link(SiteId from, SiteId to) const;

  private:
    static std::size_t index(SiteId from, SiteId to, std::size_t sites);
    std::vector<Site> sites_;
    std::vector<std::optional<Link>> links_; // sites x sites, row = from
};

// A federation file: {"sites":[{"name","gpu","nodes","gpus_per_node" | "gpus"}], "bw_gbps":[[]],
// "rtt_ms":[[]]}; null = no link; bw[i][j] is i sends to j; "gpus" alone means 8 per node; no GPUs at all is
// a site that carries nothing. Optional per site: "free_nodes", "free_gpus_per_node", "state", "routable",
// "stale", and "classes" for mixed nodes.
Result<Federation> read_federation(const Json &json);
Json to_json(const Federation &federation);

} // namespace spider::federation

namespace spider {
using federation::Federation;
} // namespace spider
