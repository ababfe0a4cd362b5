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

std::string enter_directory(const Arrival &arrival) {
    if (arrival.directory.empty()) return {};
    const auto path = util::shell_quote("./" + arrival.directory);
    return "spiderflow_said=$({ mkdir -p " + path + " && cd " + path + "; } 2>&1) && cd " + path +
           " || { echo " + util::shell_quote("spiderflow: site " + arrival.site + ": working directory: ") +
           "\"$spiderflow_said. Nothing was started.\" >&2; exit " + std::to_string(unpacking_failed_status) +
           "; }\nunset spiderflow_said\n";
}

// $1: site, $2: SHA-256; the archive in base64 on standard input. A program of its own, so that neither the
// dialect nor the options of the script's shell matter; sh, coreutils, tar and gzip are all it needs. A file
// that is there with the same content stays untouched: it may be the home site's own, on a file system that
// both see.
constexpr std::string_view unpacker = R"sh(site=$1 sum=$2 box=
fail() {
    printf 'spiderflow: site %s: what travels (stage=): %s. Nothing was started.\n' "$site" \
        "$(printf %s "$1" | tr '\n' ' ')" >&2
    exit 73
}
trap '[ -z "$box" ] || rm -rf "$box"' EXIT
trap 'exit 73' HUP INT TERM
mark() { [ ! -x "$1" ] || echo x; }
same() {
    [ -f "$2" ] && [ "$(mark "$1")" = "$(mark "$2")" ] &&
        [ "$(sha256sum <"$1")" = "$(sha256sum <"$2" 2>/dev/null)" ]
}
place() {
    for name in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        [ -e "$name" ] || continue
        to=./${name#"$box/new/"}
        if [ -d "$name" ]; then
            said=$(mkdir -p "$to" 2>&1) || fail "$PWD: $said"
            place "$name"
        elif [ -d "$to" ]; then
            fail "$PWD: $to is a directory there"
        elif ! same "$name" "$to"; then
            said=$(mv -f "$name" "$to" 2>&1) || fail "$PWD: $said"
        fi
    done
}
said=$(mktemp -d ./.spiderflow-XXXXXX 2>&1) || fail "$PWD: $said"
box=$said
said=$(base64 -d 2>&1 >"$box/archive") || fail "$PWD: $said"
found=$(sha256sum <"$box/archive")
[ "${found%% *}" = "$sum" ] || fail "it arrived damaged: SHA-256 ${found%% *}, expected $sum"
said=$({ mkdir "$box/new" && tar -xzmf "$box/archive" -C "$box/new"; } 2>&1) || fail "$PWD: $said"
place "$box/new"
)sh";

std::string unpack(const Arrival &arrival) {
    if (arrival.archive.empty()) return {};
    return "/bin/sh -c " + util::shell_quote(unpacker) + " spiderflow " + util::shell_quote(arrival.site) +
           " " + util::shell_quote(arrival.sha256) + " <<'SPIDERFLOW_STAGE' || exit " +
           std::to_string(unpacking_failed_status) + "\n" + arrival.archive +
           (arrival.archive.ends_with('\n') ? "" : "\n") + "SPIDERFLOW_STAGE\n";
}

std::string guard(const std::vector<std::string> &arguments, const Arrival &arrival) {
    const auto words = "spiderflow: site " + arrival.site +
                       ": the plugin spiderflow did not act on this node: is it installed on the compute "
                       "nodes of this site? Nothing was started.";
    std::string line = "[ -n \"${SLURM_SPIDERFLOW_MASTER:-}\" ] || { echo " + util::shell_quote(words) +
                       " >&2; exit " + std::to_string(plugin_missing_status) + "; } # added by spiderflow\n";
    line += enter_directory(arrival) + unpack(arrival);
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
                                   const Arrival &arrival) {
    if (!script.starts_with("#!")) return Error{Errc::invalid, "the batch script does not begin with '#!'"};
    const auto end = std::min(script.find('\n'), script.size());
    const auto interpreter = util::trim(script.substr(2, end - 2));
    if (interpreter.empty())
        return Error{Errc::invalid, "the batch script's first line names no interpreter"};
    const auto rest = end < script.size() ? script.substr(end + 1) : std::string_view();
    if (bourne(interpreter))
        return std::string(script.substr(0, end)) + "\n" + guard(arguments, arrival) + std::string(rest);

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
    return "#!/bin/sh\n" + guard(arguments, arrival) + "exec " + command + " /dev/fd/9 \"$@\" 9<<'" +
           delimiter + "'\n" + body + delimiter + "\n";
}

} // namespace spider::launch
