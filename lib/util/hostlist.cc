// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/hostlist.h"

#include "util/text.h"

namespace spider::util {
namespace {

Error bad_list(std::string_view list, std::string_view why) {
    return {Errc::invalid, "host list '" + std::string(list) + "': " + std::string(why)};
}

// Commas outside brackets separate words.
Result<std::vector<std::string>> words(std::string_view list) {
    std::vector<std::string> found;
    std::string word;
    bool inside = false;
    for (const char c : list) {
        if (c == '[' && std::exchange(inside, true)) return bad_list(list, "'[' inside '['");
        if (c == ']' && !std::exchange(inside, false)) return bad_list(list, "']' without '['");
        if (c == ',' && !inside) {
            if (!word.empty()) found.push_back(std::exchange(word, {}));
        } else {
            word += c;
        }
    }
    if (inside) return bad_list(list, "'[' without ']'");
    if (!word.empty()) found.push_back(word);
    return found;
}

// "1-3,07" -> 1 2 3 07; the zeros of the lower bound are kept (n[001-003]).
Result<std::vector<std::string>> numbers(std::string_view range_list, std::size_t limit) {
    std::vector<std::string> found;
    for (const auto &range : split(range_list, ',')) {
        const auto dash = range.find('-');
        const auto low_text = range.substr(0, dash);
        const auto low = to_int(low_text);
        const auto high = dash == std::string::npos ? low : to_int(range.substr(dash + 1));
        if (!low || !high || *low < 0 || *high < *low)
            return bad_list(range_list, "bad range '" + range + "'");
        if (static_cast<std::size_t>(*high - *low) >= limit - found.size())
            return bad_list(range_list, "more than " + std::to_string(limit) + " hosts");
        for (auto i = *low; i <= *high; ++i) {
            auto text = std::to_string(i);
            if (text.size() < low_text.size()) text.insert(0, low_text.size() - text.size(), '0');
            found.push_back(std::move(text));
        }
    }
    if (found.empty()) return bad_list(range_list, "empty range");
    return found;
}

Result<std::vector<std::string>> expand_word(std::string_view word, std::size_t limit) {
    const auto open = word.find('[');
    if (open == std::string_view::npos) return std::vector<std::string>{std::string(word)};
    const auto close = word.find(']', open);
    auto middle = numbers(word.substr(open + 1, close - open - 1), limit);
    if (!middle) return std::move(middle).error();
    auto tails = expand_word(word.substr(close + 1), limit);
    if (!tails) return tails;
    if (middle->size() > limit / tails->size())
        return bad_list(word, "more than " + std::to_string(limit) + " hosts");
    std::vector<std::string> found;
    found.reserve(middle->size() * tails->size());
    for (const auto &digits : *middle)
        for (const auto &tail : *tails)
            found.push_back(std::string(word.substr(0, open)) + digits + tail);
    return found;
}

} // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view list, std::size_t limit) {
    auto parts = words(list);
    if (!parts) return parts;
    std::vector<std::string> hosts;
    for (const auto &word : *parts) {
        auto some = expand_word(word, limit);
        if (!some) return some;
        if (some->size() > limit - hosts.size())
            return bad_list(list, "more than " + std::to_string(limit) + " hosts");
        hosts.insert(hosts.end(), some->begin(), some->end());
    }
    return hosts;
}

} // namespace spider::util
