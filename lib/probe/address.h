// SPDX-License-Identifier: GPL-3.0-or-later
// "host:port", the addresses behind it, and networks of addresses. Plain values; sockets are not blocking.
#pragma once

#include "probe/deadline.h"
#include "util/fd.h"

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace spider::probe {

struct Address {
    sockaddr_storage raw{};
    socklen_t size = 0;
    [[nodiscard]] std::string text() const; // without the port; IPv4 in IPv6 as IPv4
    [[nodiscard]] int port() const;
};

// "192.0.2.0/24", "2001:db8::/32", "192.0.2.7".
class Network {
  public:
    static Result<Network> parse(std::string_view text);
    [[nodiscard]] bool contains(const Address &address) const;

  private:
    std::array<unsigned char, 16> prefix_{}; // IPv4 as ::ffff:a.b.c.d
    int bits_ = 128;
};

struct HostPort {
    std::string host; // without brackets
    std::string port;
};
Result<HostPort>
parse_host_port(std::string_view text); // "host:port", "192.0.2.7:7711", "[2001:db8::1]:7711"

// The name server answers in its own time, which is not the deadline's.
Result<std::vector<Address>> resolve(const std::string &host_port);

// A TCP connection to the first address that `admits` (empty = all) and that answers.
Result<util::Fd> connect_to(const std::string &host_port, const std::function<bool(const Address &)> &admits,
                            const Deadline &deadline);

// A listening socket; "[::]" takes IPv4 too, and is "0.0.0.0" where the kernel has no IPv6.
Result<util::Fd> listen_on(const std::string &host_port);

Address address_of(int fd); // of the socket's own end
Address peer_of(int fd);

} // namespace spider::probe
