// SPDX-License-Identifier: GPL-3.0-or-later
// The links as the broker knows them: pinned in the configuration, measured by the sites' agents and by jobs,
// imported. Has them measured by turns and keeps the history. Owned and used by the broker's thread.
#pragma once

#include "broker/known_links.h"
#include "broker/link_book.h"
#include "broker/prober.h"
#include "broker/settings.h"
#include "probe/schedule.h"
#include "util/clock.h"
#include "wire/messages.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spider::broker {

class Links {
  public:
    // Without a book the history ends with the process.
    Links(std::optional<LinkBook> book, Prober::Ask ask, const util::Clock &clock);

    void configure(const Config &config);
    void tick(); // takes what tests have found, starts those that are due

    [[nodiscard]] std::vector<NamedLink> known() const;
    // Every directed pair of the sites that the configuration names. `only`: both directions between two.
    [[nodiscard]] wire::LinksView view(const Reserved &reserved,
                                       const std::optional<probe::Pair> &only = {}) const;
    // "s1 - s3 (last measured 3 h ago)": the pairs of these sites without a link in either direction.
    [[nodiscard]] std::string unknown(const std::vector<std::string> &sites) const;

    // All or none. Errc::invalid: a site that is not in the configuration, a link like none there is.
    Result<void> take(const std::vector<probe::Sample> &samples);
    // Measures two sites now; `done` is called after that, or at once when it cannot be.
    void measure(const probe::Pair &pair, std::function<void(Result<void>)> done);
    // Measures what is not known between these sites, quickly, as far as that goes in `longest` seconds; then
    // calls `done`.
    void freshen(const std::vector<std::string> &sites, Seconds longest, std::function<void()> done);

  private:
    using Ends = std::pair<std::string, std::string>; // from, to
    struct Waiting {
        std::vector<probe::Pair> pairs; // not measured yet
        Seconds until = 0;              // monotonic
        bool hurried = false;           // freshen(): no trouble is told
        std::function<void(Result<void>)> done;
    };

    [[nodiscard]] const std::string &agent_of(const std::string &site) const;
    [[nodiscard]] const LinkConfig *pinned(const std::string &from, const std::string &to) const;
    [[nodiscard]] std::optional<probe::Known> measured(const std::string &from, const std::string &to) const;
    [[nodiscard]] wire::LinkState state_of(const Ends &ends, const Reserved &reserved) const;
    [[nodiscard]] std::string trouble_of(const Ends &ends, const std::optional<probe::Known> &known) const;
    [[nodiscard]] Seconds last_seen(const Ends &ends) const;
    void load();
    void keep(const std::vector<probe::Sample> &samples);
    void start_tests();
    void take_tested(const Tested &tested);
    void note(const probe::Pair &pair, const std::string &trouble);
    void answer_waiting(const probe::Pair &pair, const std::string &trouble);
    void give_up_waiting();

    std::optional<LinkBook> book_;
    const util::Clock &clock_;
    ProbeConfig probe_;
    std::vector<LinkConfig> pinned_;
    std::map<std::string, std::string> agents_; // site -> "host:port", "" where there is none
    bool loaded_ = false;
    Seconds forget_due_ = 0;
    std::map<Ends, std::vector<probe::Sample>> samples_;
    probe::Schedule schedule_;
    std::map<probe::Pair, std::string> troubles_; // of the latest test
    std::vector<Waiting> waiting_;
    Prober prober_; // the last member: its threads end first
};

} // namespace spider::broker
