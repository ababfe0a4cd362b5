// SPDX-License-Identifier: GPL-3.0-or-later
// A channel between two ends with somebody in the middle who sees and changes all, but has no key.
#include "probe/channel.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>

namespace spider::probe {
namespace {

constexpr Seconds soon = 0.05, patient = 10;

std::array<util::Fd, 2> pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {util::Fd(ends[0]), util::Fd(ends[1])};
}

std::string take(int fd, std::size_t count) {
    std::string bytes(count, '\0');
    EXPECT_EQ(::recv(fd, bytes.data(), count, MSG_WAITALL), static_cast<ssize_t>(count));
    return bytes;
}

std::string take_frame(int fd) {
    auto frame = take(fd, 4);
    const auto size = static_cast<unsigned char>(frame[2]) * 256u + static_cast<unsigned char>(frame[3]);
    return frame + take(fd, size + sizeof(Digest));
}

void give(int fd, const std::string &bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

Key key(char fill = 'k') { return Key(std::string(least_key, fill)); }

class Session {
  public:
    explicit Session(const Key &of_client = key(), const Key &of_agent = key(), const std::string &to = "b") {
        auto near = pair(), far = pair();
        client_side = std::move(near[1]);
        agent_side = std::move(far[0]);
        auto greeting = std::async(std::launch::async, [&, fd = std::move(near[0])]() mutable {
            return Channel::greet(std::move(fd), of_client, "a", to, Deadline(patient));
        });
        auto welcome = std::async(std::launch::async, [&, fd = std::move(far[1])]() mutable {
            return Channel::welcome(std::move(fd), of_agent, "b", Deadline(patient));
        });
        hello = take_frame(client_side.get());
        give(agent_side.get(), hello);
        std::string answer(1, '\0'); // nothing when the agent ends the connection
        if (::recv(agent_side.get(), answer.data(), 1, MSG_PEEK) == 1)
            give(client_side.get(), take_frame(agent_side.get()));
        else
            client_side.reset();
        client.emplace(greeting.get());
        agent.emplace(welcome.get());
    }
    // A frame of the client, caught on its way.
    std::string caught(int number = 1) {
        EXPECT_TRUE((*client)->send({{"do", "echo"}, {"number", number}}, Deadline(patient)));
        return take_frame(client_side.get());
    }
    Result<Json> received(const std::string &frame, Seconds in = patient) {
        give(agent_side.get(), frame);
        return (*agent)->receive(Deadline(in));
    }

    util::Fd client_side, agent_side; // of the one in the middle
    std::string hello;
    std::optional<Result<Channel>> client, agent;
};

TEST(Channel, CarriesFramesBothWaysAndNamesThePeers) {
    Session session;
    ASSERT_TRUE(*session.client) << session.client->error().what;
    ASSERT_TRUE(*session.agent) << session.agent->error().what;
    EXPECT_EQ((*session.client)->peer(), "b");
    EXPECT_EQ((*session.agent)->peer(), "a");
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(model::number_at(*session.received(session.caught(i)), "number"), i);
    EXPECT_TRUE((*session.agent)->send({{"echo", true}}, Deadline(patient)));
    give(session.client_side.get(), take_frame(session.agent_side.get()));
    EXPECT_TRUE(model::bool_at(*(*session.client)->receive(Deadline(patient)), "echo"));
}

TEST(Channel, WithAnotherKeyIsRefusedAtBothEnds) {
    Session session(key('a'), key('b'));
    EXPECT_EQ(session.agent->error().what, "hello: the keys differ");
    EXPECT_EQ(session.client->error().code, Errc::denied);
}

TEST(Channel, ToTheAgentOfAnotherSiteIsRefusedByTheClient) {
    Session session(key(), key(), "c");
    EXPECT_EQ(session.client->error().what, "it is the agent of site 'b', not of 'c'");
}

TEST(Channel, RefusesAFrameOfWhichAnyByteWasAltered) {
    const auto length = Session().caught().size();
    for (std::size_t i = 0; i < length; ++i) {
        Session session;
        auto frame = session.caught();
        frame[i] = static_cast<char>(frame[i] ^ 1);
        EXPECT_FALSE(session.received(frame, soon)) << "byte " << i;
    }
}

TEST(Channel, RefusesAFrameThatIsRepeated) {
    Session session;
    const auto frame = session.caught();
    EXPECT_TRUE(session.received(frame));
    EXPECT_EQ(session.received(frame).error().code, Errc::denied);
}

TEST(Channel, RefusesAFrameThatComesBeforeItsTurn) {
    Session session;
    const auto first = session.caught(), second = session.caught();
    EXPECT_EQ(session.received(second).error().code, Errc::denied);
}

TEST(Channel, RefusesAFrameThatIsReflected) {
    Session session;
    give(session.client_side.get(), session.caught());
    EXPECT_EQ((*session.client)->receive(Deadline(patient)).error().code, Errc::denied);
}

TEST(Channel, RefusesAFrameOfAnotherSession) {
    Session session, other;
    EXPECT_EQ(session.received(other.caught()).error().code, Errc::denied);
}

TEST(Channel, RefusesWhatFollowsAHelloThatIsRepeated) {
    Session session;
    const auto recorded = session.hello, frame = session.caught();
    auto ends = pair();
    give(ends[0].get(), recorded + frame);
    auto again = Channel::welcome(std::move(ends[1]), key(), "b", Deadline(patient));
    ASSERT_TRUE(again) << "an old hello alone proves nothing, and is no harm";
    EXPECT_EQ(again->receive(Deadline(patient)).error().what, "a frame that is not authentic");
}

TEST(Channel, TakesItsOwnHelloForNoAnswer) {
    auto ends = pair();
    auto greeting = std::async(std::launch::async, [&] {
        return Channel::greet(std::move(ends[1]), key(), "a", "", Deadline(patient));
    });
    give(ends[0].get(), take_frame(ends[0].get()));
    EXPECT_EQ(greeting.get().error().code, Errc::denied);
}

TEST(Channel, RefusesALongFrameOfAStrangerAtItsLength) {
    for (const auto &length :
         {std::string("\xFF\xFF\xFF\xFF"), std::string("\0\0\x08\0", 4), std::string("GET ")}) {
        auto ends = pair();
        give(ends[0].get(), length);
        const auto channel = Channel::welcome(std::move(ends[1]), key(), "b", Deadline(patient));
        EXPECT_EQ(channel.error().code, Errc::protocol);
    }
}

TEST(Channel, WaitsNoLongerThanItsDeadlineForHalfAFrame) {
    Session session;
    EXPECT_EQ(session.received(session.caught().substr(0, 20), soon).error().code, Errc::timeout);
    session.agent_side.reset();
    EXPECT_EQ((*session.agent)->receive(Deadline(patient)).error().code, Errc::unreachable);
}

TEST(Channel, ThatAsksGetsARefusalAsTheErrorItWas) {
    Session session;
    EXPECT_TRUE((*session.agent)->send({{"error", "busy"}, {"code", "refused"}}, Deadline(patient)));
    give(session.client_side.get(), take_frame(session.agent_side.get()));
    const auto answer = (*session.client)->ask({{"do", "test"}}, Deadline(patient));
    EXPECT_EQ(answer.error(), (Error{Errc::refused, "busy"}));
}

} // namespace
} // namespace spider::probe
