// SPDX-License-Identifier: GPL-3.0-or-later
// What the broker knows of links: pinned, measured, imported, too old. The agents are a fake that answers
// what a test tells it to.
#include "broker/links.h"

#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace spider::broker {
namespace {

constexpr Seconds today = 1'800'000'000;

probe::Measurement measurement(double forth, double back, double rtt_ms) {
    probe::Measurement found;
    found.at = 1;
    found.streams = 8;
    found.rtt_min = found.rtt_median = found.rtt_p95 = rtt_ms / 1e3;
    found.forth = found.forth_both = {.gbps = forth, .low = forth, .bytes = 1e6, .congestion = "cubic"};
    found.back = found.back_both = {.gbps = back, .low = back, .bytes = 1e6, .congestion = "cubic"};
    return found;
}

struct LinksTest : testing::Test {
    std::filesystem::path folder = testing::TempDir() + "links" + std::to_string(::getpid());
    util::ManualClock clock;
    Config config;
    std::mutex mutex;
    std::map<std::string, Result<probe::Measurement>> answers; // "a b": what a finds towards b
    std::vector<LinkTest> asked;
    bool hang = false;

    LinksTest() {
        std::filesystem::create_directories(folder);
        clock.at = today;
        config.home = "a";
        for (const auto *name : {"a", "b", "c"}) {
            SiteConfig site;
            site.name = name;
            site.probe = std::string(name) + ".example:7711";
            config.sites.push_back(site);
        }
        config.probe.key_file = "/etc/key";
        config.probe.before_plan = 2;
        answers.emplace("a b", measurement(4, 3, 20));
        answers.emplace("a c", measurement(2, 1, 50));
        answers.emplace("b c", measurement(8, 8, 5));
    }
    ~LinksTest() override { std::filesystem::remove_all(folder); }

    Links make(bool with_book = true) {
        std::optional<LinkBook> book;
        if (with_book) {
            auto opened = LinkBook::open((folder / "links.db").string());
            EXPECT_TRUE(opened) << opened.error().what;
            book = std::move(*opened);
        }
        Links links(
            std::move(book), [this](const LinkTest &test, int stop) { return ask(test, stop); }, clock);
        links.configure(config);
        return links;
    }
    Result<probe::Measurement> ask(const LinkTest &test, int stop) {
        if (hang) {
            pollfd waiting{stop, POLLIN, 0};
            ::poll(&waiting, 1, 20'000);
            return Error{Errc::timeout, "given up"};
        }
        const std::lock_guard lock(mutex);
        asked.push_back(test);
        return answers.at(test.order.from + " " + test.order.to);
    }
    // Until no test is under way or due; the clocks stand still.
    static void settle(Links &links) {
        for (int i = 0; i < 400; ++i) {
            links.tick();
            const auto view = links.view({});
            if (std::none_of(view.links.begin(), view.links.end(),
                             [&](const auto &link) {
                                 return link.testing || (link.next_due > 0 && link.next_due <= view.now);
                             }) &&
                i > 3)
                return;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        FAIL() << "tests do not end";
    }
    static const NamedLink *find(const std::vector<NamedLink> &links, const std::string &from,
                                 const std::string &to) {
        for (const auto &link : links)
            if (link.from == from && link.to == to) return &link;
        return nullptr;
    }
    static wire::LinkState state(const Links &links, const std::string &from, const std::string &to) {
        const auto view = links.view({});
        for (const auto &link : view.links)
            if (link.from == from && link.to == to) return link;
        return {};
    }
    probe::Sample sample(const std::string &from, const std::string &to, double gbps, Seconds at) const {
        return {
            .from = from, .to = to, .source = probe::Source::iperf3, .at = at, .gbps = gbps, .rtt_ms = 10};
    }
};

TEST_F(LinksTest, EveryPairIsMeasuredOnceAndBothDirectionsAreKnown) {
    auto links = make();
    settle(links);
    EXPECT_EQ(asked.size(), 3u);
    const auto known = links.known();
    ASSERT_EQ(known.size(), 6u);
    EXPECT_EQ(*find(known, "a", "b"), (NamedLink{"a", "b", 4, 4, 20, 8, "probe", today}));
    EXPECT_EQ(*find(known, "b", "a"), (NamedLink{"b", "a", 3, 3, 20, 8, "probe", today}));
    for (const auto &test : asked) {
        EXPECT_EQ(test.agent, test.order.from + ".example:7711");
        EXPECT_EQ(test.order.address, test.order.to + ".example:7711");
    }
}

TEST_F(LinksTest, WhatIsOlderThanMaxAgeIsUnknownAndNeitherZeroNorInfinite) {
    auto links = make();
    settle(links);
    answers.insert_or_assign("a b", Error{Errc::unreachable, "a.example:7711: connection refused"});
    clock.at += config.probe.max_age + 60;
    settle(links);
    EXPECT_EQ(find(links.known(), "a", "b"), nullptr);
    EXPECT_NE(find(links.known(), "a", "c"), nullptr) << "that one was measured again";
    const auto seen = state(links, "a", "b");
    EXPECT_EQ(seen.gbps, 0);
    EXPECT_EQ(seen.source, "");
    EXPECT_EQ(seen.measured_at, today);
    EXPECT_NE(seen.trouble.find("last measured 1 d ago"), std::string::npos) << seen.trouble;
    EXPECT_NE(seen.trouble.find("connection refused"), std::string::npos) << seen.trouble;
    EXPECT_NE(links.unknown({"a", "b"}).find("a -> b (last measured"), std::string::npos);
    EXPECT_EQ(links.unknown({"a", "c"}), "");
}

TEST_F(LinksTest, APinnedLinkWinsAndSaysWhenItContradictsWhatWasMeasured) {
    config.links.push_back({"a", "b", 40, 1, false});
    auto links = make();
    settle(links);
    EXPECT_EQ(*find(links.known(), "a", "b"), (NamedLink{"a", "b", 40, 0, 1, 0, "pinned", 0}));
    EXPECT_EQ(find(links.known(), "b", "a")->source, "probe");
    EXPECT_EQ(state(links, "a", "b").trouble, "pinned; 4 Gbit/s were measured 0 s ago");
}

TEST_F(LinksTest, ADegradedLinkIsSeenByTheNextTest) {
    auto links = make();
    settle(links);
    for (int cycle = 0; cycle < 4; ++cycle) {
        clock.at += 1.2 * config.probe.interval;
        settle(links);
    }
    answers.insert_or_assign("a b", measurement(0.1, 3, 20));
    clock.at += 1.2 * config.probe.interval;
    settle(links);
    EXPECT_EQ(find(links.known(), "a", "b")->gbps, 0.1);
    EXPECT_EQ(find(links.known(), "a", "b")->usual_gbps, 4);
    EXPECT_EQ(find(links.known(), "b", "a")->gbps, 3);
}

TEST_F(LinksTest, AnAbsurdResultIsNotTakenAndTheOldOneStays) {
    auto links = make();
    settle(links);
    for (const double gbps : {0.0, -1.0, 1e4, std::nan("")}) {
        answers.insert_or_assign("a b", measurement(gbps, 3, gbps == 0 ? 0 : 20));
        clock.at += 1.2 * config.probe.interval;
        settle(links);
        EXPECT_EQ(find(links.known(), "a", "b")->gbps, 4) << gbps;
        EXPECT_NE(state(links, "a", "b").trouble.find("the test was no good"), std::string::npos) << gbps;
        clock.at -= 1.2 * config.probe.interval; // else the first one would be too old
    }
}

TEST_F(LinksTest, TheHistoryOutlivesTheBroker) {
    {
        auto links = make();
        settle(links);
    }
    asked.clear();
    clock.at += 60;
    auto links = make();
    settle(links);
    EXPECT_EQ(asked.size(), 0u) << "all are fresh";
    EXPECT_EQ(find(links.known(), "a", "b")->measured_at, today);
}

TEST_F(LinksTest, APlanWaitsForUnknownLinksAndNotLongerThanItMay) {
    auto links = make(false);
    bool called = false;
    links.freshen({"a", "b"}, 2, [&] { called = true; });
    EXPECT_FALSE(called);
    settle(links);
    EXPECT_TRUE(called);
    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(asked.front().order.from + asked.front().order.to, "ab") << "its pair comes first";
    EXPECT_EQ(asked.front().order.seconds, 1) << "somebody waits";
    called = false;
    links.freshen({"a", "b"}, 2, [&] { called = true; });
    EXPECT_TRUE(called) << "known already";
}

TEST_F(LinksTest, AHangingAgentKeepsNobodyWaiting) {
    hang = true;
    auto links = make(false);
    bool called = false;
    links.freshen({"a", "b"}, 2, [&] { called = true; });
    links.tick();
    EXPECT_FALSE(called);
    clock.at += 2.5;
    links.tick();
    EXPECT_TRUE(called);
    EXPECT_TRUE(links.known().empty());
} // and the test under way does not keep the process from ending

TEST_F(LinksTest, ImportsAreTakenAllOrNone) {
    config.probe.key_file.clear(); // no agents
    auto links = make();
    EXPECT_FALSE(links.take({sample("a", "b", 5, today - 60), sample("a", "nowhere", 5, today - 60)}));
    EXPECT_FALSE(links.take({sample("a", "b", 5, today - 60), sample("a", "c", 10'000, today - 60)}));
    EXPECT_FALSE(links.take({sample("a", "b", 5, today + 3600)}));
    EXPECT_TRUE(links.known().empty());
    ASSERT_TRUE(links.take({sample("a", "b", 5, today - 60)}));
    EXPECT_EQ(links.known().size(), 1u);
    EXPECT_EQ(find(links.known(), "a", "b")->source, "iperf3");
}

TEST_F(LinksTest, WhoAsksToMeasureHearsWhyItCannotBe) {
    config.sites[2].probe.clear();
    auto links = make(false);
    std::string why;
    const auto keep = [&](const Result<void> &done) { why = done ? "good" : done.error().what; };
    links.measure({"a", "nowhere"}, keep);
    EXPECT_EQ(why, "site nowhere is not in spiderflow.conf");
    links.measure({"a", "c"}, keep);
    EXPECT_NE(why.find("site c has no agent: set probe = "), std::string::npos) << why;
    why.clear();
    answers.insert_or_assign("a b", Error{Errc::refused, "agent b: busy"});
    links.measure({"a", "b"}, keep);
    settle(links);
    EXPECT_EQ(why, "a - b: agent b: busy");
    answers.insert_or_assign("a b", measurement(4, 3, 20));
    links.measure({"a", "b"}, keep);
    settle(links);
    EXPECT_EQ(why, "good");
}

TEST_F(LinksTest, ReservedSharesAreShown) {
    auto links = make(false);
    const auto view = links.view({{{"a", "b"}, 1.5}});
    for (const auto &link : view.links)
        EXPECT_EQ(link.reserved_gbps, link.from == "a" && link.to == "b" ? 1.5 : 0);
}

} // namespace
} // namespace spider::broker
