// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/link_checker.h"

#include "probe/agent.h"
#include "probe/client.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/text.h"

#include <algorithm>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace spider::cli {
namespace {

using Pair = std::pair<std::string, std::string>; // in order of names

constexpr Seconds to_gather = 8; // the parts do not begin at the same moment
constexpr Seconds of_a_pair = 5; // three phases of a second, round trips, a busy agent
constexpr useconds_t pause = 150'000;

std::set<Pair> pairs_of(const probe::LinkCheck &check) {
    std::set<Pair> pairs;
    for (const auto &link : check.links)
        pairs.insert(std::minmax(link.from, link.to));
    return pairs;
}

// The agent of this part, for as long as the check takes.
class Here {
  public:
    explicit Here(probe::Agent agent)
        : stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), agent_(std::move(agent)),
          runner_([this] { agent_.run(stop_.get()); }) {}
    Here(const Here &) = delete;
    Here &operator=(const Here &) = delete;
    ~Here() {
        ::eventfd_write(stop_.get(), 1);
        runner_.join();
    }
    [[nodiscard]] int measured() const { return agent_.measured(); }

  private:
    util::Fd stop_;
    probe::Agent agent_;
    std::thread runner_; // the last member
};

Result<probe::Measurement> measure(const CheckPlace &place, const Pair &pair, const probe::Key &key,
                                   Seconds end) {
    const util::SystemClock clock;
    const auto &other = pair.first == place.site ? pair.second : pair.first;
    const auto address = place.addresses.find(other);
    if (address == place.addresses.end()) return Error{Errc::not_found, "its address is not known"};
    const auto port = std::to_string(place.port);
    const auto host =
        address->second.find(':') == std::string::npos ? address->second : "[" + address->second + "]";
    const probe::Order order{
        .from = place.site, .to = other, .address = host + ":" + port, .streams = 8, .seconds = 1};
    for (;;) {
        const auto left = end - clock.elapsed();
        auto found = probe::ask("127.0.0.1:" + port, key, order, std::max(left, 0.1));
        if (found || clock.elapsed() + of_a_pair > end) return found;
        ::usleep(pause); // it is busy, or not there yet
    }
}

void take(const probe::Measurement &found, const CheckPlace &place, const std::string &other,
          const probe::LinkCheck &check, Checked &checked) {
    for (const auto &sample : probe::samples_of(found, place.site, other)) {
        checked.seen.push_back(sample);
        for (const auto &link : check.links)
            if (link.from == sample.from && link.to == sample.to)
                if (const auto words = probe::worse(link, sample, check.factor); !words.empty())
                    checked.worse.push_back(words);
    }
}

} // namespace

Result<CheckPlace> check_place(const std::string &site, std::string_view word) {
    const auto words = util::split(word, '/');
    const auto port = words.size() == 3 ? util::to_int(words[1]) : std::nullopt;
    if (!port || *port < 1 || *port > 65535)
        return Error{Errc::invalid, "'" + std::string(word) + "': expected ADDRESS/PORT/SITE@ADDRESS,…"};
    CheckPlace place{.site = site, .port = static_cast<int>(*port), .addresses = {}};
    for (const auto &entry : util::split(words[2], ',')) {
        const auto at = entry.find('@');
        if (at == std::string::npos) return Error{Errc::invalid, "'" + entry + "': expected SITE@ADDRESS"};
        place.addresses[entry.substr(0, at)] = entry.substr(at + 1);
    }
    return place;
}

Seconds longest_check(const probe::LinkCheck &check) {
    return to_gather + of_a_pair * static_cast<double>(std::min<std::size_t>(pairs_of(check).size(), 6));
}

Checked check_links(const CheckPlace &place, const probe::LinkCheck &check) {
    const util::SystemClock clock;
    const auto end = clock.elapsed() + longest_check(check);
    Checked checked;
    const probe::Key key(check.key);
    probe::AgentConfig config{.site = place.site,
                              .listen = "[::]:" + std::to_string(place.port),
                              .key_file = {},
                              .allow = {},
                              .networks = {},
                              .key = key};
    for (const auto *everybody : {"0.0.0.0/0", "::/0"}) // who has the key
        config.networks.push_back(*probe::Network::parse(everybody));
    auto agent = probe::Agent::open(std::move(config));
    if (!agent) {
        checked.trouble.push_back("the links were not checked: " + agent.error().what);
        return checked;
    }
    Here here(std::move(*agent));
    int expected = 0; // measurements by others
    for (const auto &pair : pairs_of(check)) {
        if (pair.second == place.site) ++expected;
        if (pair.first != place.site) continue;
        const auto found = measure(place, pair, key, end);
        if (found)
            take(*found, place, pair.second, check, checked);
        else
            checked.trouble.push_back("the link " + pair.first + " - " + pair.second +
                                      " was not checked: " + found.error().what);
    }
    while (here.measured() < expected && clock.elapsed() < end)
        ::usleep(pause / 3);
    return checked;
}

} // namespace spider::cli
