// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/part_script.h"

#include "util/text.h"

#include <algorithm>
#include <array>

namespace spider::launch {
namespace {

// "/usr/bin/env -S bash -l" and "/bin/bash" are both bash.
bool bourne(std::string_view interpreter) {
    constexpr std::array<std::string_view, 7> shells{"sh", "bash", "dash", "ksh", "ksh93", "mksh", "zsh"};
    for (const auto &word : util::split(interpreter, ' ')) {
        const auto base = word.substr(word.rfind('/') + 1);
        if (base.empty() || base == "env" || base[0] == '-') continue;
        return std::find(shells.begin(), shells.end(), base) != shells.end();
    }
    return false;
}

std::string guard(const std::vector<std::string> &arguments, std::string_view site) {
    const auto words = "spiderflow: site " + std::string(site) +
                       ": the plugin spiderflow did not act on this node: is it installed on the compute "
                       "nodes of this site? Nothing was started.";
    std::string line = "[ -n \"${SLURM_SPIDERFLOW_MASTER:-}\" ] || { echo " + util::shell_quote(words) +
                       " >&2; exit " + std::to_string(plugin_missing_status) + "; } # added by spiderflow\n";
    if (arguments.empty()) return line;
    line += "set --";
    for (const auto &argument : arguments)
        line += " " + util::shell_quote(argument);
    return line + "\n";
}

// A delimiter that is no line of the script.
std::string delimiter_for(std::string_view script) {
    std::string word = "SPIDERFLOW_SCRIPT";
    while (script.find("\n" + word) != std::string_view::npos)
        word += "_";
    return word;
}

} // namespace

Result<std::string> guarded_script(std::string_view script, const std::vector<std::string> &arguments,
                                   std::string_view site) {
    if (!script.starts_with("#!")) return Error{Errc::invalid, "the batch script does not begin with '#!'"};
    const auto end = std::min(script.find('\n'), script.size());
    const auto interpreter = util::trim(script.substr(2, end - 2));
    if (interpreter.empty())
        return Error{Errc::invalid, "the batch script's first line names no interpreter"};
    const auto rest = end < script.size() ? script.substr(end + 1) : std::string_view();
    if (bourne(interpreter))
        return std::string(script.substr(0, end)) + "\n" + guard(arguments, site) + std::string(rest);

    // The kernel gives everything behind the interpreter as one argument.
    const auto blank = interpreter.find_first_of(" \t");
    auto command = util::shell_quote(interpreter.substr(0, blank));
    if (blank != std::string_view::npos) {
        const auto argument = util::trim(interpreter.substr(blank));
        command += " " + (interpreter.substr(0, blank).ends_with("/env") ? std::string(argument)
                                                                         : util::shell_quote(argument));
    }
    const auto delimiter = delimiter_for(script);
    auto body = std::string(script);
    if (body.back() != '\n') body += '\n';
    return "#!/bin/sh\n" + guard(arguments, site) + "exec " + command + " /dev/fd/9 \"$@\" 9<<'" + delimiter +
           "'\n" + body + delimiter + "\n";
}

} // namespace spider::launch
