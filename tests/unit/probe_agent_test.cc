// SPDX-License-Identifier: GPL-3.0-or-later
// Real agents on loopback: what they measure, and what becomes of peers that mean no good.
#include "unit/probe_agents.h"

#include "probe/messages.h"

#include <future>
#include <random>

namespace spider::probe {
namespace {

using test::a_key;
using test::config_of;
using test::insider;
using test::Raw;
using test::Running;
using test::short_order;

constexpr Seconds patient = 20;

void expect_sane(const Result<Measurement> &found, int streams = 2) {
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->streams, streams);
    EXPECT_GT(found->rtt_min, 0);
    EXPECT_LE(found->rtt_min, found->rtt_median);
    EXPECT_LE(found->rtt_median, found->rtt_p95);
    EXPECT_LT(found->rtt_median, 1);
    EXPECT_GT(found->at, 1.7e9);
    for (const auto &rate : {found->forth, found->back, found->forth_both, found->back_both}) {
        EXPECT_GT(rate.gbps, 0.001);
        EXPECT_LT(rate.gbps, 1000);
        EXPECT_GE(rate.low, 0);
        EXPECT_GT(rate.bytes, 0);
        EXPECT_GE(rate.retransmits, 0);
        EXPECT_FALSE(rate.congestion.empty());
    }
    for (const auto &sample : samples_of(*found, "a", "b"))
        EXPECT_TRUE(plausible(sample)) << plausible(sample).error().what;
}

// An agent is busy for a moment after a test, too.
template <class Try>
Result<Measurement> when_free(Try attempt) {
    const Deadline deadline(patient);
    auto found = attempt();
    while (!found && is_busy(found.error()) && deadline.pause(0.01) && deadline.left() > 0)
        found = attempt();
    return found;
}
Result<Measurement> measure_when_free(const Key &key, const Order &order) {
    return when_free([&] { return measure(key, order, patient); });
}
Result<Measurement> ask_when_free(const Running &agent, const Order &order) {
    return when_free([&] { return ask(agent.address(), a_key(), order, patient); });
}

Json test_request(const Order &order) { return {{"do", "test"}, {"order", to_json(order)}}; }

TEST(Agent, IsMeasuredAndMeasuresWhenItIsAsked) {
    Running a("a"), b("b");
    expect_sane(measure_when_free(a_key(), short_order("a", "b", b)));
    expect_sane(ask_when_free(a, short_order("a", "b", b)));
}

TEST(Agent, IsMeasuredByIpv6AsByIpv4) {
    auto config = config_of("b", "::1");
    config.listen = "[::1]:0";
    if (!listen_on(config.listen)) GTEST_SKIP() << "no IPv6 here";
    Running b(config);
    auto order = short_order("a", "b", b);
    order.address = "[::1]:" + std::to_string((*b).port());
    expect_sane(measure_when_free(a_key(), order));
}

TEST(Agent, KeepsToThePaceThatIsOrderedAndToItsOwn) {
    auto config = config_of("b");
    Running b(config);
    config.most_gbps = 0.1;
    Running slow(config);
    auto order = short_order("a", "b", b);
    order.seconds = 0.4;
    order.pace_gbps = 0.1;
    auto unpaced = short_order("a", "b", slow);
    unpaced.seconds = 0.4;
    for (const auto &found : {measure(a_key(), order, patient), measure(a_key(), unpaced, patient)}) {
        expect_sane(found);
        for (const auto &rate : {found->forth, found->back, found->forth_both, found->back_both})
            EXPECT_LT(rate.gbps, 0.15);
    }
}

TEST(Agent, GrantsNoMoreStreamsThanItsOwn) {
    auto config = config_of("b");
    config.streams = 1;
    Running b(config);
    expect_sane(measure(a_key(), short_order("a", "b", b), patient), 1);
}

TEST(Agent, EndsAPhaseEarlyAtItsBytes) {
    Running b("b");
    auto order = short_order("a", "b", b);
    order.seconds = 60;
    order.most_bytes = 3e6;
    const auto found = measure(a_key(), order, patient); // three phases of 60 s would take longer
    expect_sane(found);
    for (const auto &rate : {found->forth, found->back, found->forth_both, found->back_both})
        EXPECT_EQ(rate.bytes, 3e6);
}

TEST(Agent, CarriesNoMoreInADayThanItsBytes) {
    auto config = config_of("b");
    config.daily_gbytes = 0.02;
    Running b(config);
    const auto found = measure(a_key(), short_order("a", "b", b), patient);
    expect_sane(found);
    EXPECT_LE(found->forth.bytes + found->back.bytes + found->forth_both.bytes + found->back_both.bytes,
              20e6);
    const auto again = measure(a_key(), short_order("a", "b", b), patient);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::refused);
    EXPECT_EQ(again.error().what, "site b has spent its 0.02 GB of today");
    Running a("a");
    EXPECT_EQ(ask(a.address(), a_key(), short_order("a", "b", b), patient).error().code, Errc::refused);
}

TEST(Agent, AnswersOneOfTwoAtOnceWithBusy) {
    Running a("a"), b("b"), c("c");
    auto first = short_order("a", "b", b), second = short_order("c", "b", b);
    first.seconds = second.seconds = 0.3;
    auto one = std::async(std::launch::async, [&] { return ask(a.address(), a_key(), first, patient); });
    auto two = std::async(std::launch::async, [&] { return ask(c.address(), a_key(), second, patient); });
    const std::array found{one.get(), two.get()};
    ASSERT_NE(found[0].ok(), found[1].ok()) << "one is measured, one is not";
    const auto &error = found[found[0].ok() ? 1 : 0].error();
    EXPECT_TRUE(is_busy(error)) << error.what;
    expect_sane(found[found[0].ok() ? 0 : 1]);
    expect_sane(ask_when_free(c, short_order("c", "b", b)));
}

TEST(Agent, MeasuresForItsOwnSiteOnlyAndTowardsTheRightOne) {
    Running a("a"), b("b");
    EXPECT_EQ(ask(b.address(), a_key(), short_order("a", "b", b), patient).error().code, Errc::denied);
    const auto wrong = ask(a.address(), a_key(), short_order("a", "z", b), patient);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().what.find("it is the agent of site 'b', not of 'z'"), std::string::npos)
        << wrong.error().what;
}

TEST(Agent, ConnectsToNoAddressThatIsNotOnItsList) {
    const auto listener = listen_on("127.0.0.1:0");
    ASSERT_TRUE(listener);
    Running a(config_of("a", "127.0.0.2")), b("b");
    const Raw broker((*a).port(), "2");
    ASSERT_TRUE(broker.connected());
    auto fd = Raw((*a).port(), "2").release();
    auto channel = Channel::greet(std::move(fd), a_key(), "", "a", Deadline(patient));
    ASSERT_TRUE(channel) << channel.error().what;
    auto order = short_order("a", "b", b);
    order.address = "127.0.0.1:" + std::to_string(address_of(listener->get()).port());
    const auto answer =
        channel->ask({{"do", "measure"}, {"order", to_json(order)}, {"seconds", patient}}, Deadline(patient));
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().what.find("not on the list 'allow'"), std::string::npos) << answer.error().what;
    EXPECT_LT(::accept(listener->get(), nullptr, nullptr), 0) << "somebody connected";
}

TEST(Agent, ClosesAPeerThatIsNotOnTheListAtOnce) {
    Running b(config_of("b", "127.0.0.2"));
    const Raw stranger((*b).port());
    EXPECT_EQ(stranger.hear(proof_within / 2), "") << "closed, before it could have waited for a byte";
    EXPECT_EQ(measure(a_key(), short_order("a", "b", b), patient).error().code, Errc::denied);
}

TEST(Agent, SaysNothingToWhoeverDoesNotKnowTheKey) {
    Running b("b");
    const auto wrong = measure(a_key('x'), short_order("a", "b", b), patient);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Errc::denied);
    const std::string hello = R"({"spiderflow-probe":1,"site":"a","nonce":""})";
    const std::string frame =
        std::string("\0\0\0", 3) + static_cast<char>(hello.size()) + hello + std::string(32, 'm');
    for (const auto &said :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\0'), std::string("\xFF\xFF\xFF\xFF"),
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), frame}) {
        const Raw stranger((*b).port());
        stranger.say(said);
        EXPECT_EQ(stranger.hear(proof_within / 2), "");
    }
}

TEST(Agent, EndsWhatStallsBeforeTheProofWithinItsTime) {
    Running b("b");
    const Raw silent((*b).port()), half((*b).port()), slow((*b).port());
    half.say(std::string("\0\0\0\x40{\"spider", 13));
    auto dripping = std::async(std::launch::async, [&] {
        for (int i = 0; i < 100; ++i) {
            slow.say(std::string(1, '\0'));
            if (const auto heard = slow.hear(0.1)) return heard;
        }
        return std::optional<std::string>();
    });
    EXPECT_EQ(silent.hear(2 * proof_within), "");
    EXPECT_EQ(half.hear(2 * proof_within), "");
    EXPECT_EQ(dripping.get(), "") << "a byte now and then does not prolong it";
}

TEST(Agent, GoesOnWhenAClientVanishesAtAnyPointOfATest) {
    Running b("b");
    for (int steps = 0; steps < 4; ++steps) {
        auto client = insider(b);
        const auto order = short_order("a", "b", b);
        const Deadline deadline(patient);
        auto granted = client.ask(test_request(order), deadline);
        while (!granted && is_busy(granted.error())) { // with the one that has just vanished
            client = insider(b);
            granted = client.ask(test_request(order), deadline);
        }
        ASSERT_TRUE(granted) << granted.error().what;
        const std::array<Json, 2> said{Json{{"do", "echo"}}, Json{{"do", "phase"}, {"phase", 0}}};
        for (int i = 0; i < std::min(steps, 2); ++i)
            EXPECT_TRUE(client.ask(said.at(static_cast<std::size_t>(i)), deadline));
        if (steps > 2) {
            auto stream = insider(b);
            EXPECT_TRUE(
                stream.ask({{"do", "attach"}, {"token", model::text_at(*granted, "token")}}, deadline));
        }
    }
    for (int tries = 0; tries < 100; ++tries) {
        const auto found = measure(a_key(), short_order("a", "b", b), patient);
        if (!found && is_busy(found.error())) continue;
        return expect_sane(found);
    }
    FAIL() << "still busy";
}

TEST(Agent, EndsATestWhoseClientVanishesInTheMiddleOfAPhase) {
    Running a("a"), b("b");
    auto order = short_order("a", "b", b);
    order.seconds = 10;
    const Deadline deadline(patient);
    auto asked = std::async(std::launch::async, [&] {
        for (;;) {
            auto found = ask(a.address(), a_key(), order, patient);
            if (found || !is_busy(found.error())) return found;
        }
    });
    for (bool busy = false; !busy && deadline.left() > 0;) { // until b is in the test
        const auto found = measure(a_key(), short_order("c", "b", b), patient);
        busy = !found && is_busy(found.error());
    }
    a.stop();
    EXPECT_FALSE(asked.get());
    while (deadline.left() > 0) {
        const auto found = measure(a_key(), short_order("c", "b", b), patient);
        if (!found && is_busy(found.error())) continue;
        return expect_sane(found);
    }
    FAIL() << "still busy";
}

TEST(Agent, RefusesWhatComesOutOfTurn) {
    Running b("b");
    const auto order = short_order("a", "b", b);
    const std::vector<Json> wrong{{{"do", "start"}},
                                  {{"do", "finish"}},
                                  {{"do", "phase"}, {"phase", 1}},
                                  {{"do", "phase"}, {"phase", "first"}},
                                  {{"do", "measure"}},
                                  {{"do", 5}},
                                  Json::object()};
    for (const auto &request : wrong) {
        auto client = insider(b);
        auto granted = client.ask(test_request(order), Deadline(patient));
        ASSERT_TRUE(granted) << granted.error().what;
        const auto answer = client.ask(request, Deadline(patient));
        ASSERT_FALSE(answer) << model::print_json(request);
        EXPECT_EQ(answer.error().code, Errc::protocol);
        EXPECT_EQ(client.receive(Deadline(patient)).error().code, Errc::unreachable) << "it is over";
    }
}

TEST(Agent, GivesNoStreamToWhoeverDoesNotKnowTheTokenOrComesOnTop) {
    Running b("b");
    auto client = insider(b);
    const Deadline deadline(patient);
    const auto granted = client.ask(test_request(short_order("a", "b", b)), deadline);
    ASSERT_TRUE(granted);
    const auto attach = [&](const std::string &token, bool back) {
        auto stream = insider(b);
        return stream.ask({{"do", "attach"}, {"token", token}, {"back", back}}, deadline).ok();
    };
    const auto token = model::text_at(*granted, "token");
    EXPECT_FALSE(attach(token, false)) << "before the phase";
    ASSERT_TRUE(client.ask({{"do", "phase"}, {"phase", 0}}, deadline));
    EXPECT_FALSE(attach("", false));
    EXPECT_FALSE(attach(std::string(64, '0'), false));
    EXPECT_FALSE(attach(token, true)) << "this phase has no other direction";
    EXPECT_TRUE(attach(token, false));
    EXPECT_TRUE(attach(token, false));
    EXPECT_FALSE(attach(token, false)) << "a third one of two";
}

TEST(Agent, TakesNewSettingsAndKeepsItsPort) {
    Running b("b");
    expect_sane(measure_when_free(a_key(), short_order("a", "b", b)));
    auto config = config_of("b");
    config.key = a_key('n');
    config.listen = "127.0.0.1:1";
    (*b).reload(config);
    EXPECT_EQ(measure(a_key(), short_order("a", "b", b), patient).error().code, Errc::denied);
    expect_sane(measure_when_free(a_key('n'), short_order("a", "b", b)));
}

TEST(Measure, SaysWhatIsWrongWhenNobodyListens) {
    Order order{.from = "a", .to = "b"};
    {
        const auto listener = listen_on("127.0.0.1:0");
        order.address = "127.0.0.1:" + std::to_string(address_of(listener->get()).port());
    }
    const auto found = measure(a_key(), order, patient);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Errc::unreachable);
    EXPECT_EQ(found.error().what, "connect to " + order.address + ": 127.0.0.1: Connection refused");
    order.address = "nonsense";
    EXPECT_EQ(measure(a_key(), order, patient).error().code, Errc::invalid);
}

TEST(Measure, GivesUpAtItsDeadlineWhenTheOtherSideSaysNothing) {
    const auto listener = listen_on("127.0.0.1:0"); // accepts in the kernel, and that is all
    const Order order{.address = "127.0.0.1:" + std::to_string(address_of(listener->get()).port())};
    EXPECT_EQ(measure(a_key(), order, 0.2).error().code, Errc::timeout);
    EXPECT_EQ(ask(order.address, a_key(), order, 0.2).error().code, Errc::timeout);
}

} // namespace
} // namespace spider::probe
