// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/check.h"

#include "spank/hook.h"
#include "util/comment.h"
#include "util/text.h"

namespace spider::spank {
namespace {

constexpr Seconds deadline = 60; // the helper ends by itself long before

} // namespace

CheckedLinks check_links(const Settings &settings, const std::string &site, const std::string &word,
                         const std::string &check) {
    std::string input;
    add_line(input, "site", site);
    add_line(input, "word", word);
    add_line(input, "check", check);
    auto reply = ask_helper(settings, {"check"}, input, deadline);
    if (!reply) return {{"warning: the links were not checked: " + reply.error().what}, {}, false};
    CheckedLinks checked{std::move(reply->say), {}, !reply->fail.empty()};
    if (!reply->keep.empty()) checked.seen = reply->keep.front();
    if (checked.stop) checked.say.push_back(reply->fail);
    return checked;
}

std::string with_seen(const std::string &comment, const std::string &seen) {
    auto mark = util::parse_comment(comment);
    if (!mark) return {};
    mark->seen = seen;
    return util::to_text(*mark);
}

} // namespace spider::spank
