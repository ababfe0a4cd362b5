// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/address.h"

#include "util/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

namespace spider::probe {
namespace {

using Bits = std::array<unsigned char, 16>;

Bits mapped(const in_addr &address) {
    Bits bits{};
    bits[10] = bits[11] = 0xFF;
    std::memcpy(bits.data() + 12, &address, 4);
    return bits;
}

Bits bits_of(const Address &address) {
    Bits bits{};
    if (address.raw.ss_family == AF_INET)
        return mapped(reinterpret_cast<const sockaddr_in &>(address.raw).sin_addr);
    if (address.raw.ss_family == AF_INET6)
        std::memcpy(bits.data(), &reinterpret_cast<const sockaddr_in6 &>(address.raw).sin6_addr, bits.size());
    return bits;
}

Error failed(const std::string &what) {
    const auto code = errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH ||
                              errno == ETIMEDOUT || errno == ECONNRESET
                          ? Errc::unreachable
                          : Errc::system;
    return {code, what + ": " + std::strerror(errno)};
}

template <class Ask>
Address named(int fd, Ask ask) {
    Address address;
    address.size = sizeof address.raw;
    if (ask(fd, reinterpret_cast<sockaddr *>(&address.raw), &address.size) != 0) return {};
    return address;
}

Result<std::vector<Address>> look_up(const std::string &host_port, int flags) {
    const auto parts = parse_host_port(host_port);
    if (!parts) return parts.error();
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    const int trouble = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &found);
    if (trouble != 0) return Error{Errc::not_found, host_port + ": " + ::gai_strerror(trouble)};
    const std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, ::freeaddrinfo);
    std::vector<Address> addresses;
    for (const auto *one = found; one != nullptr; one = one->ai_next) {
        Address address;
        address.size = one->ai_addrlen;
        std::memcpy(&address.raw, one->ai_addr, one->ai_addrlen);
        addresses.push_back(address);
    }
    return addresses;
}

Result<util::Fd> socket_for(const Address &address) {
    util::Fd fd(::socket(address.raw.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return failed("socket");
    return fd;
}

Result<util::Fd> connect_one(const Address &address, const Deadline &deadline) {
    auto fd = socket_for(address);
    if (!fd) return fd;
    const auto *raw = reinterpret_cast<const sockaddr *>(&address.raw);
    if (::connect(fd->get(), raw, address.size) == 0) return fd;
    if (errno != EINPROGRESS) return failed(address.text());
    if (auto ready = deadline.wait(fd->get(), POLLOUT); !ready)
        return std::move(ready).error().within(address.text());
    int trouble = 0;
    socklen_t size = sizeof trouble;
    ::getsockopt(fd->get(), SOL_SOCKET, SO_ERROR, &trouble, &size);
    errno = trouble;
    if (trouble != 0) return failed(address.text());
    return fd;
}

Result<util::Fd> listen_at(const Address &address) {
    auto fd = socket_for(address);
    if (!fd) return fd;
    const int yes = 1, no = 0;
    ::setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address.raw.ss_family == AF_INET6) ::setsockopt(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    constexpr int backlog = 64;
    if (::bind(fd->get(), reinterpret_cast<const sockaddr *>(&address.raw), address.size) != 0 ||
        ::listen(fd->get(), backlog) != 0)
        return failed("cannot listen");
    return fd;
}

} // namespace

std::string Address::text() const {
    const auto bits = bits_of(*this);
    const bool is_v4 = std::equal(bits.begin(), bits.begin() + 12, mapped({}).begin());
    char name[INET6_ADDRSTRLEN] = "?";
    if (is_v4)
        ::inet_ntop(AF_INET, bits.data() + 12, name, sizeof name);
    else
        ::inet_ntop(AF_INET6, bits.data(), name, sizeof name);
    return name;
}

int Address::port() const { // at the same place in both families
    return ntohs(reinterpret_cast<const sockaddr_in &>(raw).sin_port);
}

Result<Network> Network::parse(std::string_view text) {
    const auto slash = text.find('/');
    const std::string host(text.substr(0, slash));
    const Error wrong{Errc::invalid,
                      "'" + std::string(text) + "': expected an address or a network: 192.0.2.0/24"};
    Network network;
    in_addr v4{};
    const bool is_v4 = ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
    if (is_v4)
        network.prefix_ = mapped(v4);
    else if (::inet_pton(AF_INET6, host.c_str(), network.prefix_.data()) != 1)
        return wrong;
    if (slash == std::string_view::npos) return network;
    const auto bits = util::to_int(text.substr(slash + 1));
    if (!bits || *bits < 0 || *bits > (is_v4 ? 32 : 128)) return wrong;
    network.bits_ = static_cast<int>(*bits) + (is_v4 ? 96 : 0);
    return network;
}

bool Network::contains(const Address &address) const {
    if (address.size == 0) return false;
    const auto bits = bits_of(address);
    const auto whole = static_cast<std::size_t>(bits_ / 8);
    if (!std::equal(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(whole), prefix_.begin()))
        return false;
    if (bits_ % 8 == 0) return true;
    return ((bits[whole] ^ prefix_[whole]) >> (8 - bits_ % 8)) == 0;
}

Result<HostPort> parse_host_port(std::string_view text) {
    const auto colon = text.rfind(':');
    const Error wrong{Errc::invalid, "'" + std::string(text) +
                                         "': expected HOST:PORT, 192.0.2.7:7711 or [2001:db8::1]:7711"};
    if (colon == std::string_view::npos) return wrong;
    auto host = text.substr(0, colon);
    const auto port = util::to_int(text.substr(colon + 1));
    if (!port || *port < 0 || *port > 65535) return wrong;
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    if (host.empty() || (!bracketed && host.find_first_of(":[]") != std::string_view::npos)) return wrong;
    return HostPort{std::string(host), std::to_string(*port)};
}

Result<std::vector<Address>> resolve(const std::string &host_port) { return look_up(host_port, 0); }

Result<util::Fd> connect_to(const std::string &host_port, const std::function<bool(const Address &)> &admits,
                            const Deadline &deadline) {
    auto addresses = resolve(host_port);
    if (!addresses) return std::move(addresses).error();
    Error last{Errc::denied, host_port + ": its address is not on the list 'allow' of this agent"};
    for (const auto &address : *addresses) {
        if (admits && !admits(address)) continue;
        auto fd = connect_one(address, deadline);
        const int yes = 1;
        if (fd) ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (fd) return fd;
        last = std::move(fd).error().within("connect to " + host_port);
    }
    return last;
}

Result<util::Fd> listen_on(const std::string &host_port) {
    const auto addresses = look_up(host_port, AI_PASSIVE);
    if (!addresses) return addresses.error();
    auto fd = listen_at(addresses->front());
    if (!fd && errno == EAFNOSUPPORT && host_port.starts_with("[::]:"))
        return listen_on("0.0.0.0:" + parse_host_port(host_port)->port);
    if (!fd) return std::move(fd).error().within(host_port);
    return fd;
}

Address address_of(int fd) { return named(fd, ::getsockname); }
Address peer_of(int fd) { return named(fd, ::getpeername); }

} // namespace spider::probe
