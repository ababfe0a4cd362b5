// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/reach.h"

#include "util/fd.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace spider::spank {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

// A way to `host`; null and a reason when it has none.
Addresses look_up(const std::string &host, int port, int flags, std::string &why) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo *found = nullptr;
    if (const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
        status != 0)
        why = ::gai_strerror(status);
    return {found, ::freeaddrinfo};
}

Error unreachable(int number) { return {Errc::unreachable, std::strerror(number)}; }

} // namespace

Result<std::string> numeric_address(const std::string &host) {
    std::string why;
    if (look_up(host, 0, AI_NUMERICHOST, why)) return host;
    const auto found = look_up(host, 0, AI_ADDRCONFIG, why);
    std::array<char, NI_MAXHOST> text{};
    if (!found || ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
                                NI_NUMERICHOST) != 0)
        return Error{Errc::not_found, why};
    return std::string(text.data());
}

Result<void> reaches(const std::string &address, int port, Seconds deadline) {
    std::string why;
    const auto to = look_up(address, port, AI_NUMERICHOST | AI_NUMERICSERV, why);
    if (!to) return Error{Errc::unreachable, why};
    const util::Fd socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return unreachable(errno);
    if (::connect(socket.get(), to->ai_addr, to->ai_addrlen) == 0 || errno == ECONNREFUSED) return {};
    if (errno != EINPROGRESS) return unreachable(errno);
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, static_cast<int>(deadline * 1000)) <= 0) return unreachable(ETIMEDOUT);
    int trouble = 0;
    socklen_t length = sizeof trouble;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &trouble, &length);
    return trouble == 0 || trouble == ECONNREFUSED ? Result<void>() : unreachable(trouble);
}

Result<void> is_free(int port) {
    const int yes = 1, no = 0;
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any.sin6_port;
    util::Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool six = static_cast<bool>(socket);
    if (!six) socket = util::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); // a kernel without IPv6
    // As the trainer's own server binds: a port whose last connections are ending is free.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (six) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const int bound = six ? ::bind(socket.get(), reinterpret_cast<const sockaddr *>(&any), sizeof any)
                          : ::bind(socket.get(), reinterpret_cast<const sockaddr *>(&any4), sizeof any4);
    if (bound != 0 && errno == EADDRINUSE) return Error{Errc::refused, std::strerror(errno)};
    return {};
}

} // namespace spider::spank
