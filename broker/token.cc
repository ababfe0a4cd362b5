// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/token.h"

#include "model/json.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace spider::broker {
namespace {

// RFC 4648, section 5; the '=' at the end may be missing (RFC 7515 leaves them out).
std::optional<std::string> from_base64url(std::string_view text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (const auto padding = text.find('='); padding != std::string_view::npos) {
        const auto signs = text.substr(padding);
        if (text.size() % 4 != 0 || (signs != "=" && signs != "==")) return std::nullopt;
        text.remove_suffix(signs.size());
    }
    if (text.size() % 4 == 1) return std::nullopt;
    std::string bytes;
    unsigned bits = 0;
    int held = 0; // bits that are not yet a byte
    for (const char c : text) {
        const auto digit = digits.find(c);
        if (digit == std::string_view::npos) return std::nullopt;
        bits = (bits << 6) | static_cast<unsigned>(digit);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        bytes += static_cast<char>((bits >> held) & 0xFF);
    }
    return bytes;
}

} // namespace

Result<Seconds> expiry_of(std::string_view jwt) {
    const auto parts = util::split(jwt, '.'); // header, claims, signature (RFC 7519)
    const auto claims = parts.size() == 3 ? from_base64url(parts[1]) : std::nullopt;
    const auto json = claims ? model::parse_json(*claims) : Result<Json>(Json());
    if (!json || !json->is_object()) return Error{Errc::invalid, "not a JWT"}; // JSON's error would quote it
    const auto &expiry = model::at(*json, "exp");
    if (expiry.is_null()) return 0.0;
    if (!expiry.is_number() || !std::isfinite(expiry.get<double>()))
        return Error{Errc::invalid, "not a JWT: its exp is no number"};
    return std::max(expiry.get<double>(), 1.0); // 1970 or earlier: expired, not without a time
}

} // namespace spider::broker
