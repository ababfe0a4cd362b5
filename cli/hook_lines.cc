// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/hook_lines.h"

#include "util/text.h"

namespace spider::cli {
namespace {

struct Line {
    std::string word;
    std::string rest;
};

std::vector<Line> lines_of(std::string_view text) {
    std::vector<Line> lines;
    for (const auto &raw : util::split(text, '\n')) {
        if (raw.empty()) continue;
        const auto blank = raw.find(' ');
        lines.push_back({raw.substr(0, blank), blank == std::string::npos
                                                   ? std::string()
                                                   : util::unescape_line(raw.substr(blank + 1))});
    }
    return lines;
}

Error unknown(const Line &line) {
    return {Errc::protocol, "the plugin says '" + line.word +
                                "', which this spiderflow does not know; install both in one version"};
}

} // namespace

Result<PlanLines> read_plan_lines(std::string_view text) {
    PlanLines lines;
    for (const auto &line : lines_of(text)) {
        if (line.word == "spec") {
            lines.spec = line.rest;
        } else if (line.word == "option") {
            const auto blank = line.rest.find(' ');
            lines.options[line.rest.substr(0, blank)] =
                blank == std::string::npos ? std::string() : line.rest.substr(blank + 1);
        } else if (line.word == "test-only") {
            lines.test_only = true;
        } else {
            return unknown(line);
        }
    }
    return lines;
}

Result<PlaceLines> read_place_lines(std::string_view text) {
    PlaceLines lines;
    for (const auto &line : lines_of(text)) {
        if (line.word == "arg")
            lines.arguments.push_back(line.rest);
        else if (line.word == "export")
            lines.export_value = line.rest;
        else if (line.word == "directory")
            lines.travelling.directory = line.rest;
        else if (line.word == "stage")
            lines.travelling.paths.push_back(line.rest);
        else
            return unknown(line);
    }
    return lines;
}

std::string line(std::string_view word, std::string_view rest) {
    return std::string(word) + " " + util::escape_line(rest) + "\n";
}

std::string line(std::string_view word, std::string_view name, std::string_view value) {
    return std::string(word) + " " + std::string(name) + " " + util::escape_line(value) + "\n";
}

std::string plan_lines(const wire::PlanReply &reply) {
    std::string text;
    if (!reply.id.empty()) text += line("id", reply.id);
    if (!reply.line.empty()) text += line("say", reply.line);
    for (const auto &[name, value] : reply.options)
        text += line("option", name, value);
    for (const auto &[name, value] : reply.environment)
        text += line("env", name, value);
    return text;
}

std::string kept_lines(const Travelling &travelling) {
    if (travelling.paths.empty()) return {};
    const auto keep = [](std::string_view word, std::string_view rest) {
        return line("keep", std::string(word) + " " + util::escape_line(rest));
    };
    auto text = keep("directory", travelling.directory);
    for (const auto &path : travelling.paths)
        text += keep("stage", path);
    return text;
}

} // namespace spider::cli
