// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens as Slurm's auth/jwt makes them, but with a signature of nobody.
#pragma once

#include <string>
#include <string_view>

namespace spider::test {

inline std::string base64url(std::string_view bytes, bool padded = false) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        const std::size_t used = bytes.size() - i > 2 ? 4 : bytes.size() - i + 1;
        for (std::size_t k = 0; k < used; ++k)
            text += digits[group >> (18 - 6 * k) & 63];
        if (padded) text.append(4 - used, '=');
    }
    return text;
}

inline std::string jwt(std::string_view claims, bool padded = false) {
    return base64url(R"({"alg":"HS256","typ":"JWT"})") + "." + base64url(claims, padded) + ".c2lnbmF0dXJl";
}

} // namespace spider::test
