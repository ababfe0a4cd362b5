// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/comment.h"

#include "util/text.h"

namespace spider::util {
namespace {

constexpr std::string_view mark = "spiderflow=";
constexpr int most = 1'000'000; // attempts or restarts: a larger number is no number of ours

bool read_count(std::string_view text, int &count) {
    const auto value = to_int(text);
    if (!value || *value < 0 || *value > most) return false;
    count = static_cast<int>(*value);
    return true;
}

// "s1-17/1".
bool read_part(std::string_view text, Comment &comment) {
    const auto slash = text.rfind('/');
    if (slash == std::string_view::npos || slash == 0) return false;
    comment.job = std::string(text.substr(0, slash));
    return read_count(text.substr(slash + 1), comment.attempt);
}

// "go=10.77.1.1/29501", "run=1", "back=0", "seen=s1>s2@0.01@25".
bool read_order(std::string_view text, Comment &comment) {
    const auto equal = text.find('=');
    if (equal == std::string_view::npos) return false;
    const auto key = text.substr(0, equal);
    const auto value = text.substr(equal + 1);
    if (key == "go") {
        comment.word = std::string(value);
        return true;
    }
    if (key == "seen") {
        comment.seen = std::string(value);
        return true;
    }
    if (key == "run") return read_count(value, comment.run);
    return key == "back" && read_count(value, comment.back.emplace());
}

} // namespace

std::string to_text(const Comment &comment) {
    std::string text = comment.user;
    if (!text.empty()) text += ' ';
    text += std::string(mark) + comment.job + "/" + std::to_string(comment.attempt);
    if (!comment.word.empty()) text += " go=" + comment.word + " run=" + std::to_string(comment.run);
    if (comment.back) text += " back=" + std::to_string(*comment.back);
    if (!comment.seen.empty()) text += " seen=" + comment.seen;
    return text;
}

// The last mark counts: a user's own comment may contain the same word.
std::optional<Comment> parse_comment(std::string_view text) {
    text = trim(text);
    const auto begin = text.rfind(mark);
    if (begin == std::string_view::npos || (begin > 0 && text[begin - 1] != ' ')) return std::nullopt;
    Comment comment;
    comment.user = std::string(trim(text.substr(0, begin)));
    const auto words = split(text.substr(begin + mark.size()), ' ');
    if (words.empty() || !read_part(words.front(), comment)) return std::nullopt;
    for (std::size_t at = 1; at < words.size(); ++at)
        if (!read_order(words[at], comment)) return std::nullopt;
    return comment;
}

} // namespace spider::util
