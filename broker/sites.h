// SPDX-License-Identifier: GPL-3.0-or-later
// The sites as the broker sees them: polls every slurmrestd, keeps the last view, makes federation snapshots.
// Owned and used by the broker's thread.
#pragma once

#include "broker/known_links.h"
#include "broker/settings.h"
#include "federation/federation.h"
#include "slurm/api.h"
#include "util/clock.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace spider::broker {

using Answer = std::function<void(Result<slurm::Reply>)>;

// One site's slurmrestd: where it is, who we are there, what it said last.
struct SiteLine {
    SiteConfig config;
    std::unique_ptr<slurm::Api> api;
    std::vector<slurm::NodeView> nodes;
    Seconds seen_at = 0; // since the epoch; 0 = never
    Seconds due = 0;     // next poll, monotonic
    bool polling = false;
    std::string trouble;       // of the last poll; empty = it went well
    Seconds token_expires = 0; // since the epoch, of the token that was read last; 0 = not known
    std::int64_t requests = 0; // since the broker started, those that an expired token stopped among them
    std::int64_t failures = 0; // of these: no answer, or one with an HTTP status of 400 and above
};

class Sites {
  public:
    Sites(slurm::Http &http, const util::Clock &clock) : http_(http), clock_(clock) {}

    // Takes over new settings; keeps what is known of sites that stay. A site that has left them but is
    // `needed`, since a live part may be there, stays with its old settings as INACTIVE.
    void configure(const Config &config, const std::set<std::string> &needed);
    // The links between them, for the snapshots from now on.
    void know(std::vector<NamedLink> links, Reserved reserved);
    void tick(); // starts the polls that are due
    // Polls what was seen longer than `fresh` seconds ago, then calls `done`: at the latest after `longest`
    // seconds.
    void refresh(Seconds fresh, Seconds longest, std::function<void()> done);

    // `partition`: the user's own choice, by the home site's name; `only_free`: count what is free now, else
    // everything in service; `left_out`: sites that take no part.
    [[nodiscard]] Result<Federation> federation(const std::string &partition, bool only_free,
                                                const std::vector<std::string> &left_out = {}) const;
    [[nodiscard]] std::shared_ptr<const Federation> snapshot() const { return snapshot_; }

    [[nodiscard]] SiteLine *line(const std::string &name);
    [[nodiscard]] const std::map<std::string, SiteLine> &lines() const { return lines_; }
    // The type as the site's gres spells it, "" where it names none.
    [[nodiscard]] std::string gres_type(const std::string &site, const std::string &gpu) const;

    // Asks one site, as `user` there, whatever its state. The token is read here and nowhere else. When it
    // cannot be read or has expired (Errc::denied), the site is not asked and `done` is called at once.
    void call(const std::string &site, const std::string &user, const slurm::Call &call, Seconds timeout,
              Answer done);

  private:
    [[nodiscard]] Result<std::string> token_for(SiteLine &line) const;
    void poll(SiteLine &line, Seconds timeout, std::function<void()> done);
    void take(SiteLine &line, Result<slurm::Reply> reply);
    void note(SiteLine &line, const std::string &trouble);
    void renew_snapshot();

    slurm::Http &http_;
    const util::Clock &clock_;
    std::vector<NamedLink> links_;
    Reserved reserved_;
    Seconds poll_nodes_ = 30;
    std::map<std::string, SiteLine> lines_;
    std::shared_ptr<const Federation> snapshot_;
};

} // namespace spider::broker
