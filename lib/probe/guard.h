// SPDX-License-Identifier: GPL-3.0-or-later
// What keeps an agent small: the bytes of a day, the lines of an hour, the places of connections. Any thread.
#pragma once

#include "probe/order.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace spider::probe {

// What all tests of a day (UTC) carried, both ways. A restart forgets it.
class DailyBytes {
  public:
    void count(Bytes bytes, Seconds now);
    [[nodiscard]] Bytes spent(Seconds now) const;

  private:
    mutable std::mutex mutex_;
    Bytes spent_ = 0;
    long day_ = 0;
};

// One line for each kind of trouble, address and hour: a scan must not fill the log.
class QuietLog {
  public:
    // `kind` tells troubles apart, `line` may differ each time.
    void warn(std::string_view kind, const std::string &address, std::string_view line, Seconds now);
    [[nodiscard]] bool due(std::string_view kind, const std::string &address, Seconds now); // and not again

  private:
    std::mutex mutex_;
    std::map<std::string, Seconds> said_; // bounded
};

constexpr int most_connections = 64;
constexpr int most_unproven = 32; // of one address: the streams of a test both ways

class Places {
  public:
    bool enter(const std::string &address); // false: all are taken
    void prove(const std::string &address); // it knows the key
    void leave(const std::string &address, bool proven);
    [[nodiscard]] int taken() const;

  private:
    mutable std::mutex mutex_;
    int taken_ = 0;
    std::map<std::string, int> unproven_;
};

} // namespace spider::probe
