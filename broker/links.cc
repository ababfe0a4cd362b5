// SPDX-License-Identifier: GPL-3.0-or-later
// Links: what is known, and how it comes to be known. links_view.cc: what callers get to see.
#include "broker/links.h"

#include "util/log.h"
#include "util/text.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace spider::broker {

namespace {

constexpr Seconds history = 30.0 * 24 * 3600; // that the book keeps
constexpr Seconds forget_interval = 6 * 3600;
constexpr std::size_t samples_kept = 64; // of each direction, in memory
constexpr Seconds quick_phase = 1;       // of a test that a plan waits for
constexpr Seconds answer_time = 10;      // of an agent, beyond its phases
constexpr int phases = 3;                // forth, back, both at once
constexpr double flows = 4;              // directions in them
constexpr double bytes_per_gbyte = 1e9;

} // namespace

Links::Links(std::optional<LinkBook> book, Prober::Ask ask, const util::Clock &clock)
    : book_(std::move(book)), clock_(clock), prober_(std::move(ask)) {}

void Links::configure(const Config &config) {
    probe_ = config.probe;
    pinned_ = config.links;
    agents_.clear();
    std::set<std::string> measurable;
    for (const auto &site : config.sites) {
        agents_[site.name] = site.probe;
        if (!site.probe.empty() && site.routable && site.state != SiteState::inactive)
            measurable.insert(site.name);
    }
    std::vector<probe::Pair> pairs;
    if (!probe_.key_file.empty())
        for (auto a = measurable.begin(); a != measurable.end(); ++a)
            for (auto b = std::next(a); b != measurable.end(); ++b)
                pairs.push_back({*a, *b});
    schedule_.set({.interval = probe_.interval,
                   .daily_bytes = probe_.daily_gbytes * bytes_per_gbyte,
                   .test_bytes = flows * probe_.most_gbytes * bytes_per_gbyte},
                  std::move(pairs));
    if (!loaded_) load();
}

void Links::load() {
    loaded_ = true;
    if (!book_) return;
    auto samples = book_->load(clock_.now() - history);
    if (!samples) return util::log_warning(samples.error().what);
    std::map<std::pair<probe::Pair, Seconds>, double> tests; // both directions were written with one time
    for (const auto &sample : *samples) {
        keep({sample});
        if (sample.source == probe::Source::probe)
            tests[{probe::pair_of(sample.from, sample.to), sample.at}] += sample.bytes;
    }
    for (const auto &[test, bytes] : tests)
        schedule_.remember(test.first, test.second, bytes);
}

void Links::keep(const std::vector<probe::Sample> &samples) {
    for (const auto &sample : samples) {
        auto &all = samples_[{sample.from, sample.to}];
        all.push_back(sample);
        if (all.size() > samples_kept) all.erase(all.begin());
    }
}

const std::string &Links::agent_of(const std::string &site) const {
    static const std::string none;
    const auto found = agents_.find(site);
    return found == agents_.end() ? none : found->second;
}

const LinkConfig *Links::pinned(const std::string &from, const std::string &to) const {
    const LinkConfig *last = nullptr; // a later one replaces an earlier one
    for (const auto &link : pinned_)
        if ((link.from == from && link.to == to) || (link.both && link.from == to && link.to == from))
            last = &link;
    return last;
}

std::optional<probe::Known> Links::measured(const std::string &from, const std::string &to) const {
    const auto found = samples_.find({from, to});
    if (found == samples_.end()) return std::nullopt;
    return probe::known(found->second, clock_.now(), probe_.max_age);
}

std::vector<NamedLink> Links::known() const {
    std::vector<NamedLink> links;
    for (const auto &[from, from_agent] : agents_)
        for (const auto &[to, to_agent] : agents_) {
            if (from == to) continue;
            if (const auto *pin = pinned(from, to))
                links.push_back({from, to, pin->bandwidth_gbps, 0, pin->rtt_ms, 0, "pinned", 0});
            else if (const auto seen = measured(from, to))
                links.push_back({from, to, seen->gbps, seen->gbps_median, seen->rtt_ms, seen->streams,
                                 std::string(probe::name(seen->source)), seen->measured_at});
        }
    return links;
}

Result<void> Links::take(const std::vector<probe::Sample> &samples) {
    for (const auto &sample : samples) {
        for (const auto &site : {sample.from, sample.to})
            if (!agents_.contains(site))
                return Error{Errc::invalid, "site " + site + " is not in spiderflow.conf"};
        if (auto good = probe::plausible(sample); !good) return good;
        if (sample.at > clock_.now() + 60)
            return Error{Errc::invalid, sample.from + " -> " + sample.to +
                                            ": measured in the future: " + util::local_time(sample.at)};
    }
    keep(samples);
    if (!book_) return {};
    if (auto saved = book_->add(samples); !saved)
        util::log_warning(saved.error().what + "; it is kept until the broker ends");
    return {};
}

// -- measuring

void Links::measure(const probe::Pair &pair, std::function<void(Result<void>)> done) {
    const auto refused = [&](const std::string &why) {
        done(Error{Errc::refused, pair.a + " - " + pair.b + ": " + why});
    };
    for (const auto &site : {pair.a, pair.b}) {
        if (!agents_.contains(site))
            return done(Error{Errc::not_found, "site " + site + " is not in spiderflow.conf"});
        if (agent_of(site).empty())
            return refused("site " + site +
                           " has no agent: set probe = \"host:port\" for it in "
                           "spiderflow.conf");
    }
    if (!schedule_.knows(pair))
        return refused(probe_.key_file.empty() ? "[probe] key_file is not set in spiderflow.conf"
                                               : "one of them is INACTIVE or not routable");
    if (const auto why = schedule_.kept_by(pair, clock_.now()); !why.empty()) return refused(why);
    schedule_.want(pair);
    waiting_.push_back({{pair}, clock_.elapsed() + 120, false, std::move(done)});
}

void Links::freshen(const std::vector<std::string> &sites, Seconds longest, std::function<void()> done) {
    Waiting waiting{{}, clock_.elapsed() + longest, true, [done](const Result<void> &) { done(); }};
    for (std::size_t i = 0; i < sites.size() && longest > 0; ++i)
        for (std::size_t j = i + 1; j < sites.size(); ++j) {
            const auto pair = probe::pair_of(sites[i], sites[j]);
            const auto missing = [&](const std::string &from, const std::string &to) {
                return pinned(from, to) == nullptr && !measured(from, to);
            };
            if (!schedule_.knows(pair) || !(missing(pair.a, pair.b) || missing(pair.b, pair.a))) continue;
            if (!schedule_.kept_by(pair, clock_.now()).empty()) continue;
            if (const auto failed = troubles_.find(pair); failed != troubles_.end()) continue;
            schedule_.want(pair);
            waiting.pairs.push_back(pair);
        }
    if (waiting.pairs.empty()) return done();
    waiting_.push_back(std::move(waiting));
}

void Links::tick() {
    for (const auto &tested : prober_.take())
        take_tested(tested);
    give_up_waiting();
    start_tests();
    if (!book_ || clock_.elapsed() < forget_due_) return;
    forget_due_ = clock_.elapsed() + forget_interval;
    if (auto forgotten = book_->forget(clock_.now() - history); !forgotten)
        util::log_warning(forgotten.error().what);
}

void Links::start_tests() {
    const auto hurried = [this](const probe::Pair &pair) {
        return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting &waiting) {
            return waiting.hurried && std::count(waiting.pairs.begin(), waiting.pairs.end(), pair) > 0;
        });
    };
    while (const auto pair = schedule_.next(clock_.now())) {
        probe::Order order{.from = pair->a, .to = pair->b, .address = agent_of(pair->b)};
        order.streams = static_cast<int>(probe_.streams);
        order.seconds = hurried(*pair) ? std::min(quick_phase, probe_.seconds) : probe_.seconds;
        order.most_bytes = probe_.most_gbytes * bytes_per_gbyte;
        order.pace_gbps = probe_.pace_gbps;
        prober_.start(
            {agent_of(pair->a), probe_.key_file, std::move(order), phases * probe_.seconds + answer_time});
    }
}

void Links::take_tested(const Tested &tested) {
    const auto &order = tested.test.order;
    const probe::Pair pair{order.from, order.to};
    std::string trouble;
    double bytes = 0;
    if (tested.found) {
        const auto both = probe::samples_of(*tested.found, order.from, order.to);
        std::vector<probe::Sample> samples(both.begin(), both.end());
        for (auto &sample : samples) {
            sample.at = clock_.now(); // the agent's clock is nobody's business
            bytes += sample.bytes;
        }
        if (auto taken = take(samples); !taken) trouble = "the test was no good: " + taken.error().what;
    } else {
        trouble = tested.found.error().what;
    }
    schedule_.ended(pair, clock_.now(), bytes, trouble.empty());
    note(pair, trouble);
    answer_waiting(pair, trouble);
}

// Says once what went wrong and once that it is over.
void Links::note(const probe::Pair &pair, const std::string &trouble) {
    auto &last = troubles_[pair];
    const auto name = "link " + pair.a + " - " + pair.b + ": ";
    if (!trouble.empty() && trouble != last)
        util::log_warning(name + trouble);
    else if (trouble.empty() && !last.empty())
        util::log_info(name + "is measured again");
    last = trouble;
    if (trouble.empty()) troubles_.erase(pair);
}

void Links::answer_waiting(const probe::Pair &pair, const std::string &trouble) {
    std::vector<Waiting> ended;
    for (auto &waiting : waiting_) {
        std::erase(waiting.pairs, pair);
        if (waiting.pairs.empty()) ended.push_back(std::move(waiting));
    }
    std::erase_if(waiting_, [](const Waiting &waiting) { return !waiting.done; });
    for (const auto &waiting : ended)
        waiting.done(trouble.empty() ? Result<void>()
                                     : Error{Errc::refused, pair.a + " - " + pair.b + ": " + trouble});
}

void Links::give_up_waiting() {
    std::vector<Waiting> late;
    for (auto &waiting : waiting_)
        if (clock_.elapsed() >= waiting.until) late.push_back(std::move(waiting));
    std::erase_if(waiting_, [](const Waiting &waiting) { return !waiting.done; });
    for (const auto &waiting : late)
        waiting.done(Error{Errc::timeout, "the test did not end in time"});
}

} // namespace spider::broker
