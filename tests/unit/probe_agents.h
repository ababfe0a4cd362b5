// SPDX-License-Identifier: GPL-3.0-or-later
// Real agents on loopback for tests, and connections to them that say anything.
#pragma once

#include "probe/agent.h"
#include "probe/channel.h"
#include "probe/client.h"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

namespace spider::probe::test {

inline Key a_key(char fill = 'k') { return Key(std::string(least_key, fill)); }

inline AgentConfig config_of(const std::string &site, const std::string &allow = "127.0.0.0/8") {
    AgentConfig config;
    config.site = site;
    config.listen = "127.0.0.1:0";
    config.networks = {*Network::parse(allow)};
    config.key = a_key();
    return config;
}

// An agent in a thread of its own.
class Running {
  public:
    explicit Running(AgentConfig config) : agent_(Agent::open(std::move(config))) {
        if (!agent_) ADD_FAILURE() << agent_.error().what;
        runner_ = std::thread([this] { agent_->run(stop_.get()); });
    }
    explicit Running(const std::string &site) : Running(config_of(site)) {}
    ~Running() { stop(); }
    void stop() {
        if (!runner_.joinable()) return;
        ::eventfd_write(stop_.get(), 1);
        runner_.join();
    }
    Agent &operator*() { return *agent_; }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(agent_->port()); }

  private:
    util::Fd stop_{::eventfd(0, EFD_CLOEXEC)};
    Result<Agent> agent_;
    std::thread runner_;
};

inline Order short_order(const std::string &from, const std::string &to, const Running &target) {
    return {.from = from, .to = to, .address = target.address(), .streams = 2, .seconds = 0.1};
}

// A connection of somebody who has the key, and may misuse it.
inline Channel insider(const Running &agent) {
    const Deadline deadline(20);
    auto fd = connect_to(agent.address(), {}, deadline);
    auto channel = Channel::greet(fd ? std::move(*fd) : util::Fd(), a_key(), "x", "", deadline);
    EXPECT_TRUE(channel) << channel.error().what;
    return std::move(*channel);
}

// A TCP connection that speaks no protocol. `from`: its own address, by default 127.0.0.1.
class Raw {
  public:
    explicit Raw(int port, const char *from = nullptr)
        : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (from == nullptr ? 0 : std::atoi(from) - 1));
        if (from != nullptr) ::bind(fd_.get(), reinterpret_cast<sockaddr *>(&address), sizeof address);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    }
    [[nodiscard]] bool connected() const { return connected_; }
    void say(std::string_view bytes) const {
        (void)!::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    // What comes until the other side ends the connection; nothing when it has not after `seconds`.
    [[nodiscard]] std::optional<std::string> hear(Seconds seconds) const {
        const Deadline deadline(seconds);
        std::string all;
        while (deadline.wait(fd_.get(), POLLIN)) {
            char bytes[4096];
            const auto got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
            if (got <= 0) return all;
            all.append(bytes, static_cast<std::size_t>(got));
        }
        return std::nullopt;
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] util::Fd release() { return std::move(fd_); }

  private:
    util::Fd fd_;
    bool connected_ = false;
};

} // namespace spider::probe::test
