// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/notify.h"

#include "util/fd.h"
#include "util/text.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>

namespace spider::util {

void notify(const std::string &message) {
    const char *path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path);
    if (address.sun_path[0] == '@') address.sun_path[0] = '\0'; // abstract socket
    const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ::sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr *>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path)));
}

Seconds watchdog_interval() {
    const char *microseconds = std::getenv("WATCHDOG_USEC");
    const auto value = microseconds == nullptr ? std::nullopt : to_int(microseconds);
    return value && *value > 0 ? static_cast<double>(*value) * 1e-6 / 2 : 0;
}

} // namespace spider::util
