// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/link_check.h"

#include "probe/key.h"
#include "probe/link_check.h"

namespace spider::broker {

namespace {

// All parts of an attempt are placed by one process.
const std::string &secret() {
    static const std::string bytes = probe::random_bytes(32);
    return bytes;
}

std::string key_of(const coalloc::Job &job) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const char byte : probe::hmac(secret(), job.id + "/" + std::to_string(job.attempt))) {
        const auto value = static_cast<unsigned char>(byte);
        text += digits[value >> 4];
        text += digits[value & 15];
    }
    return text;
}

} // namespace

std::string check_text(const coalloc::Job &job) {
    if (job.spec.check_links == LinkChecking::no || job.plan.parts.size() < 2) return {};
    const auto check = probe::check_of(job.plan, job.spec.check_links == LinkChecking::replan,
                                       job.spec.check_factor, key_of(job));
    return check.links.empty() ? std::string() : probe::to_text(check);
}

} // namespace spider::broker
