// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/deadline.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <poll.h>

namespace spider::probe {
namespace {

Error late() { return {Errc::timeout, "no answer in time"}; }

// Sees `fd` (-1 = none) or `stop`; false when neither came in time.
Result<bool> look(int fd, short events, int stop, Seconds seconds) {
    std::array<pollfd, 2> watched{pollfd{fd, events, 0}, pollfd{stop, POLLIN, 0}};
    const auto milliseconds = static_cast<int>(std::clamp(std::ceil(seconds * 1e3), 0.0, 1e9));
    const int seen = ::poll(watched.data(), watched.size(), milliseconds);
    if (seen < 0 && errno != EINTR) return Error{Errc::system, std::string("poll: ") + std::strerror(errno)};
    if (seen > 0 && watched[1].revents != 0) return Error{Errc::refused, "the program stops"};
    return seen > 0;
}

} // namespace

Seconds elapsed() { return util::SystemClock().elapsed(); }

Deadline Deadline::within(Seconds in) const {
    Deadline sooner(in, stop_);
    sooner.until_ = std::min(sooner.until_, until_);
    return sooner;
}

Result<void> Deadline::good() const {
    if (auto seen = look(-1, 0, stop_, 0); !seen) return std::move(seen).error();
    return left() > 0 ? Result<void>() : late();
}

Result<void> Deadline::wait(int fd, short events) const {
    for (;;) {
        const auto seen = look(fd, events, stop_, left());
        if (!seen) return seen.error();
        if (*seen) return {};
        if (left() <= 0) return late();
    }
}

Result<void> Deadline::pause(Seconds seconds) const {
    const Deadline end = within(seconds);
    while (end.left() > 0)
        if (auto seen = look(-1, 0, stop_, end.left()); !seen) return std::move(seen).error();
    return {};
}

} // namespace spider::probe
