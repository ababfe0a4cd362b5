// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/key.h"

#include "util/fd.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

namespace spider::probe {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";
constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Each digit gives `bits` bits, the first one the highest; nothing at a sign that is no digit.
std::optional<std::string> from_digits(std::string_view text, std::string_view digits, int bits) {
    std::string bytes;
    unsigned held = 0;
    int count = 0; // bits in `held` that are not yet a byte
    for (const char c : text) {
        const auto digit = digits.find(c);
        if (digit == std::string_view::npos) return std::nullopt;
        held = (held << bits) | static_cast<unsigned>(digit);
        count += bits;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>((held >> count) & 0xFF);
    }
    return bytes;
}

std::optional<std::string> decoded(std::string text) {
    std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
    auto lower = text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (text.size() % 2 == 0)
        if (auto bytes = from_digits(lower, hex_digits, 4)) return bytes;
    while (text.ends_with('='))
        text.pop_back();
    return from_digits(text, base64_digits, 6);
}

Error failed(const std::string &path) { return {Errc::system, path + ": " + std::strerror(errno)}; }

} // namespace

Key::~Key() {
    if (!bytes_.empty()) OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Result<Key> read_key(const std::string &path) {
    auto text = util::read_secret(path);
    if (!text) return std::move(text).error();
    const auto bytes = decoded(*text);
    OPENSSL_cleanse(text->data(), text->size());
    if (!bytes || bytes->size() < least_key)
        return Error{Errc::invalid, path + ": not a key: expected at least " + std::to_string(least_key) +
                                        " bytes as hexadecimal digits or base64, as spiderflow-probe "
                                        "--make-key writes them"};
    return Key(*bytes);
}

Result<void> make_key(const std::string &path) {
    const auto text = random_hex(least_key) + "\n";
    const util::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) return failed(path);
    const auto written = ::write(fd.get(), text.data(), text.size());
    if (written == static_cast<ssize_t>(text.size()) && ::fsync(fd.get()) == 0) return {};
    auto error = failed(path);
    ::unlink(path.c_str());
    return error;
}

Digest hmac(std::string_view key, std::string_view text) {
    Digest digest{};
    unsigned size = 0;
    const auto *made = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                              reinterpret_cast<const unsigned char *>(text.data()), text.size(),
                              reinterpret_cast<unsigned char *>(digest.data()), &size);
    if (made == nullptr || size != digest.size()) std::abort(); // going on would mean to trust anybody
    return digest;
}

bool same(const Digest &a, const Digest &b) { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    auto *raw = reinterpret_cast<unsigned char *>(bytes.data());
    if (::RAND_bytes(raw, static_cast<int>(count)) != 1) std::abort();
    return bytes;
}

std::string random_hex(std::size_t bytes) {
    std::string text;
    for (const unsigned char byte : random_bytes(bytes)) {
        text += hex_digits[byte >> 4];
        text += hex_digits[byte & 15];
    }
    return text;
}

} // namespace spider::probe
