// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/hook.h"

#include "util/process.h"
#include "util/text.h"

namespace spider::spank {
namespace {

std::string last_line(std::string_view text) {
    text = util::trim(text);
    const auto end = text.rfind('\n');
    return std::string(end == std::string_view::npos ? text : text.substr(end + 1));
}

std::string printable(std::string_view line) {
    std::string text(line.substr(0, 200));
    for (char &c : text)
        if (static_cast<unsigned char>(c) < 32) c = ' ';
    return text;
}

// "NAME VALUE": the value may be empty and may hold blanks.
std::pair<std::string, std::string> name_and_value(std::string_view rest) {
    const auto blank = rest.find(' ');
    if (blank == std::string_view::npos) return {std::string(rest), {}};
    return {std::string(rest.substr(0, blank)), util::unescape_line(rest.substr(blank + 1))};
}

bool take(std::string_view word, std::string_view rest, Reply &reply) {
    if (word == "say")
        reply.say.push_back(util::unescape_line(rest));
    else if (word == "id")
        reply.id = util::unescape_line(rest);
    else if (word == "option")
        reply.options.push_back(name_and_value(rest));
    else if (word == "env")
        reply.environment.push_back(name_and_value(rest));
    else if (word == "keep")
        reply.keep.push_back(util::unescape_line(rest));
    else if (word == "fail")
        reply.fail = util::unescape_line(rest);
    else
        return false;
    return true;
}

} // namespace

void add_line(std::string &input, std::string_view word, std::string_view rest) {
    input += word;
    if (!rest.empty()) input += ' ' + util::escape_line(rest);
    input += '\n';
}

Result<Reply> parse_reply(std::string_view out) {
    Reply reply;
    for (const auto &line : util::split(out, '\n')) {
        if (line.empty()) continue;
        const std::string_view text = line;
        const auto blank = text.find(' ');
        const auto rest = blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
        if (!take(text.substr(0, blank), rest, reply))
            return Error{Errc::protocol, "unexpected answer '" + printable(text) + "'"};
    }
    return reply;
}

Result<Reply> ask_helper(const Settings &settings, const std::vector<std::string> &arguments,
                         const std::string &input, Seconds deadline) {
    util::Command command{.argv = {settings.helper}, .input = input, .deadline = deadline};
    if (!settings.socket.empty()) command.argv.insert(command.argv.end(), {"--socket", settings.socket});
    command.argv.emplace_back("hook");
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    const auto finished = util::run(command);
    if (!finished) return finished.error().within("helper");
    auto reply = parse_reply(finished->out);
    const bool refused = reply && !reply->fail.empty();
    if (finished->status != 0 && !refused) {
        const auto words = last_line(finished->err);
        return Error{Errc::protocol, "helper: " + settings.helper + " ended with status " +
                                         std::to_string(finished->status) +
                                         (words.empty() ? "" : ": " + printable(words))};
    }
    if (!reply) return std::move(reply).error().within("helper: " + settings.helper);
    return reply;
}

} // namespace spider::spank
