// SPDX-License-Identifier: GPL-3.0-or-later
// The key that the agents and the broker of one federation share, and what is made with it. Never printed.
#pragma once

#include "util/result.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace spider::probe {

constexpr std::size_t least_key = 32; // bytes

class Key {
  public:
    Key() = default;
    explicit Key(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {}
    Key(const Key &) = default;
    Key(Key &&) noexcept = default;
    Key &operator=(const Key &) = default;
    Key &operator=(Key &&) noexcept = default;
    ~Key();
    [[nodiscard]] std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }

  private:
    std::vector<char> bytes_;
};

// A file that only its owner can read, with at least 32 bytes as hexadecimal digits or base64.
Result<Key> read_key(const std::string &path);

// A new random key in a new file of mode 0600; never in place of another file.
Result<void> make_key(const std::string &path);

using Digest = std::array<char, 32>;
Digest hmac(std::string_view key, std::string_view text); // HMAC-SHA256
bool same(const Digest &a, const Digest &b);              // takes as long for every pair
std::string random_bytes(std::size_t count);              // fit for secrets
std::string random_hex(std::size_t bytes);

} // namespace spider::probe
