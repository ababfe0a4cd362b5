// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/comment.h"

#include "util/text.h"

namespace spider::util {
namespace {

constexpr std::string_view mark = "spiderflow=";
constexpr std::string_view word_mark = " go=";

} // namespace

std::string to_text(const Comment &comment) {
    std::string text = comment.user;
    if (!text.empty()) text += ' ';
    text += std::string(mark) + comment.job + "/" + std::to_string(comment.attempt);
    if (!comment.word.empty()) text += std::string(word_mark) + comment.word;
    return text;
}

// The last mark counts: a user's own comment may contain the same word.
std::optional<Comment> parse_comment(std::string_view text) {
    text = trim(text);
    const auto begin = text.rfind(mark);
    if (begin == std::string_view::npos || (begin > 0 && text[begin - 1] != ' ')) return std::nullopt;
    Comment comment;
    comment.user = std::string(trim(text.substr(0, begin)));
    auto rest = text.substr(begin + mark.size());
    const auto word = rest.find(word_mark);
    if (word != std::string_view::npos) {
        comment.word = std::string(trim(rest.substr(word + word_mark.size())));
        rest = rest.substr(0, word);
    }
    const auto slash = rest.rfind('/');
    if (slash == std::string_view::npos || slash == 0) return std::nullopt;
    const auto attempt = to_int(trim(rest.substr(slash + 1)));
    comment.job = std::string(rest.substr(0, slash));
    if (!attempt || *attempt < 0 || *attempt > 1'000'000 || comment.job.find(' ') != std::string::npos)
        return std::nullopt;
    comment.attempt = static_cast<int>(*attempt);
    return comment;
}

} // namespace spider::util
