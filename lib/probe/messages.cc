// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/messages.h"

#include <algorithm>

namespace spider::probe {
namespace {

constexpr std::array codes{
    std::pair(Errc::invalid, std::string_view("invalid")),
    std::pair(Errc::not_found, std::string_view("not_found")),
    std::pair(Errc::denied, std::string_view("denied")),
    std::pair(Errc::refused, std::string_view("refused")),
    std::pair(Errc::unreachable, std::string_view("unreachable")),
    std::pair(Errc::timeout, std::string_view("timeout")),
    std::pair(Errc::protocol, std::string_view("protocol")),
    std::pair(Errc::system, std::string_view("system")),
};

} // namespace

model::Json refusal(const Error &error) {
    const auto *code =
        std::find_if(codes.begin(), codes.end(), [&](const auto &row) { return row.first == error.code; });
    return {{"error", error.what.substr(0, 1000)}, {"code", code->second}};
}

std::optional<Error> refusal_in(const model::Json &answer) {
    const auto what = model::text_at(answer, "error");
    if (what.empty()) return std::nullopt;
    const auto word = model::text_at(answer, "code");
    const auto *code =
        std::find_if(codes.begin(), codes.end(), [&](const auto &row) { return row.second == word; });
    return Error{code == codes.end() ? Errc::protocol : code->first, what};
}

Error busy_with_another(const std::string &site) {
    return {Errc::refused, "site " + site + " is busy with another measurement"};
}

} // namespace spider::probe
