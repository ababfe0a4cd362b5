// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/interface.h"

#include "util/fd.h"

#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace spider::spank {
namespace {

union Address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
};

bool parse(const std::string &text, Address &address) {
    address = {};
    if (::inet_pton(AF_INET, text.c_str(), &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(9); // any port: connect() of a UDP socket sends nothing
        return true;
    }
    if (::inet_pton(AF_INET6, text.c_str(), &address.v6.sin6_addr) != 1) return false;
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(9);
    return true;
}

// The source address that the kernel picks for this destination.
bool source_of(const Address &to, Address &from) {
    const util::Fd socket(::socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), &to.any, sizeof to) != 0) return false;
    socklen_t length = sizeof from;
    return ::getsockname(socket.get(), &from.any, &length) == 0;
}

bool same(const sockaddr *held, const Address &wanted) {
    if (held == nullptr || held->sa_family != wanted.any.sa_family) return false;
    if (held->sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in *>(held)->sin_addr.s_addr == wanted.v4.sin_addr.s_addr;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 *>(held)->sin6_addr, &wanted.v6.sin6_addr,
                       sizeof wanted.v6.sin6_addr) == 0;
}

} // namespace

std::string interface_towards(const std::string &address) {
    Address to{}, from{};
    ifaddrs *all = nullptr;
    if (!parse(address, to) || !source_of(to, from) || ::getifaddrs(&all) != 0) return {};
    std::string name;
    for (const auto *one = all; one != nullptr && name.empty(); one = one->ifa_next)
        if (same(one->ifa_addr, from)) name = one->ifa_name;
    ::freeifaddrs(all);
    const auto alias = name.find(':'); // "eth0:1" is a label of eth0
    return name.substr(0, alias);
}

} // namespace spider::spank
