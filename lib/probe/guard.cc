// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/guard.h"

#include "util/log.h"

namespace spider::probe {
namespace {

constexpr Seconds hour = 3600, day = 24 * hour;
constexpr std::size_t most_remembered = 1000; // kinds and addresses

long day_of(Seconds now) { return static_cast<long>(now / day); }

} // namespace

void DailyBytes::count(Bytes bytes, Seconds now) {
    const std::lock_guard lock(mutex_);
    if (day_of(now) != day_) spent_ = 0;
    day_ = day_of(now);
    spent_ += bytes;
}

Bytes DailyBytes::spent(Seconds now) const {
    const std::lock_guard lock(mutex_);
    return day_of(now) == day_ ? spent_ : 0;
}

bool QuietLog::due(std::string_view kind, const std::string &address, Seconds now) {
    const std::lock_guard lock(mutex_);
    const auto old = [&](const auto &said) { return now - said.second >= hour || now < said.second; };
    auto name = std::string(kind) + " " + address;
    if (said_.size() >= most_remembered) std::erase_if(said_, old);
    if (said_.size() >= most_remembered && !said_.contains(name))
        name = "more"; // one line for all the others
    const auto [place, fresh] = said_.try_emplace(name, now);
    if (!fresh && !old(*place)) return false;
    place->second = now;
    return true;
}

void QuietLog::warn(std::string_view kind, const std::string &address, std::string_view line, Seconds now) {
    if (due(kind, address, now))
        util::log_warning(address + ": " + std::string(line) + " (such trouble is logged once an hour)");
}

bool Places::enter(const std::string &address) {
    const std::lock_guard lock(mutex_);
    const auto found = unproven_.find(address);
    if (taken_ >= most_connections || (found != unproven_.end() && found->second >= most_unproven))
        return false;
    ++taken_;
    ++unproven_[address];
    return true;
}

void Places::prove(const std::string &address) {
    const std::lock_guard lock(mutex_);
    if (const auto found = unproven_.find(address); found != unproven_.end() && --found->second == 0)
        unproven_.erase(found);
}

void Places::leave(const std::string &address, bool proven) {
    if (!proven) prove(address);
    const std::lock_guard lock(mutex_);
    --taken_;
}

int Places::taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
}

} // namespace spider::probe
