// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/word.h"

#include "util/comment.h"
#include "util/text.h"

#include <algorithm>
#include <array>

namespace spider::spank {
namespace {

// squeue(1), JOB STATE CODES: the job has its nodes and is going on, though not RUNNING at this moment.
constexpr std::array<std::string_view, 6> alive{"RUNNING",   "CONFIGURING", "SUSPENDED",
                                                "SIGNALING", "STOPPED",     "RESIZING"};

} // namespace

Seen judge(std::string_view line, const Self &self) {
    const auto bar = line.find('|'); // the comment may hold more of them
    if (bar == std::string_view::npos) return {};
    const auto state = util::trim(line.substr(0, bar));
    if (std::find(alive.begin(), alive.end(), state) == alive.end()) return {Look::ended, std::string(state)};
    auto comment = util::parse_comment(line.substr(bar + 1));
    if (!comment || comment->job != self.job)
        return {Look::stranger, std::string(util::trim(line.substr(bar + 1)))};
    if (comment->attempt > self.attempt) return {Look::old, std::to_string(comment->attempt)};
    if (comment->attempt < self.attempt) return {};
    if (comment->back == self.run) return {Look::back, ""};
    if (comment->word.empty()) return {};
    if (comment->run != self.run) return {Look::again, ""};
    return {Look::go, std::move(comment->word)};
}

std::vector<std::string> command_paths(const std::string &name, const std::string &bindir,
                                       const std::string &exe) {
    std::vector<std::string> paths;
    if (!bindir.empty()) paths.push_back(bindir + "/" + name);
    const auto sbin = exe.rfind('/');
    const auto prefix = sbin == 0 || sbin == std::string::npos ? sbin : exe.rfind('/', sbin - 1);
    if (prefix != std::string::npos) paths.push_back(exe.substr(0, prefix) + "/bin/" + name);
    paths.insert(paths.end(), {"/usr/bin/" + name, "/usr/local/bin/" + name});
    return paths;
}

} // namespace spider::spank
