// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow hook check`, called by the plugin in the batch step of a part.
#include "cli/hook_check.h"
#include "cli/common.h"
#include "cli/hook_lines.h"
#include "cli/link_checker.h"
#include "util/text.h"

#include <map>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr std::size_t longest_input = 1u << 20;

std::map<std::string, std::string> read_lines(std::string_view text) {
    std::map<std::string, std::string> lines;
    for (const auto &one : util::split(text, '\n'))
        if (const auto blank = one.find(' '); blank != std::string::npos)
            lines[one.substr(0, blank)] = util::unescape_line(std::string_view(one).substr(blank + 1));
    return lines;
}

int refuse(const Error &error) {
    print(line("say", "warning: the links were not checked: " + printable(error.what)));
    return success;
}

} // namespace

// Lines "say": warnings; "keep": what was seen; "fail": the plan is not worth starting.
int check_hook() {
    const auto text = read_all(STDIN_FILENO, longest_input);
    if (!text) return refuse(text.error());
    auto lines = read_lines(*text);
    const auto check = probe::parse_link_check(lines["check"]);
    if (!check) return refuse(check.error());
    const auto place = check_place(lines["site"], lines["word"]);
    if (!place) return refuse(place.error());
    const auto checked = check_links(*place, *check);
    for (const auto &trouble : checked.trouble)
        print(line("say", "warning: " + printable(trouble)));
    for (const auto &words : checked.worse)
        print(line("say", "warning: " + words));
    if (checked.worse.empty() || !check->replan) return success;
    print(line("keep", probe::seen_text(checked.seen)));
    print(line(
        "fail",
        "its links are much worse than planned (check_links=replan): this attempt ends before it began"));
    return success;
}

} // namespace spider::cli
