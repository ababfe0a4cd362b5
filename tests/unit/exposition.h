// SPDX-License-Identifier: GPL-3.0-or-later
// A reader of Prometheus' text format, version 0.0.4, as strict as `promtool check metrics` about names.
#pragma once

#include "util/text.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace spider::test {

class Exposition {
  public:
    std::map<std::string, double> series; // name{label=value,...}, the values unescaped and without quotes
    std::map<std::string, std::string> types;
    std::string trouble; // the first line that is wrong, and why

    explicit Exposition(std::string_view text) {
        if (text.ends_with('\n'))
            text.remove_suffix(1);
        else
            wrong("", "no line end at the end");
        for (const auto &line : util::split(text, '\n'))
            if (line.starts_with("# "))
                comment(line);
            else
                sample(line);
    }
    // -1234 when there is no such series.
    [[nodiscard]] double at(const std::string &name) const {
        const auto found = series.find(name);
        return found == series.end() ? -1234 : found->second;
    }

  private:
    static constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string family_;         // whose lines these are
    std::set<std::string> seen_; // families

    void wrong(const std::string &line, const std::string &why) {
        if (trouble.empty()) trouble = why + ": " + line;
    }
    static std::string name_at(const std::string &line, std::size_t &at) {
        const auto begin = at;
        while (at < line.size() &&
               (letters.find(line[at]) != letters.npos || (at > begin && line[at] >= '0' && line[at] <= '9')))
            ++at;
        return line.substr(begin, at - begin);
    }
    void comment(const std::string &line) {
        std::size_t at = 7;
        if (line.size() < at) return wrong(line, "unknown comment");
        const auto kind = line.substr(0, 7), name = name_at(line, at);
        if (name.empty() || at + 1 >= line.size() || line[at] != ' ') return wrong(line, "no text");
        if (kind == "# HELP ") {
            if (!seen_.insert(name).second) wrong(line, "a family twice");
            family_ = name;
        } else if (kind == "# TYPE ") {
            const auto type = line.substr(at + 1);
            if (family_ != name || types.count(name) != 0) wrong(line, "TYPE without HELP");
            if (type != "gauge" && type != "counter") wrong(line, "unknown type");
            if ((type == "counter") != name.ends_with("_total")) wrong(line, "a counter ends with _total");
            types[name] = type;
        } else {
            wrong(line, "unknown comment");
        }
    }
    void sample(const std::string &line) {
        std::size_t at = 0;
        const auto name = name_at(line, at);
        if (name.empty() || name != family_ || types.count(name) == 0)
            return wrong(line, "outside its family");
        auto key = name;
        if (line[at] == '{' && !labels(line, ++at, key)) return wrong(line, "labels");
        if (line[at] != ' ') return wrong(line, "no value");
        const auto value = line.substr(at + 1);
        char *end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        const bool word = value == "NaN" || value == "+Inf" || value == "-Inf";
        if (value.empty() || *end != '\0' ||
            (!word && value.find_first_not_of("0123456789+-.e") != value.npos))
            return wrong(line, "no number");
        if (!series.emplace(key, number).second) wrong(line, "a series twice");
    }
    static bool labels(const std::string &line, std::size_t &at, std::string &key) {
        std::set<std::string> names;
        for (key += '{';; key += ',') {
            const auto name = name_at(line, at);
            if (name.empty() || !names.insert(name).second || line.compare(at, 2, "=\"") != 0) return false;
            key += name + "=";
            for (at += 2; at < line.size() && line[at] != '"'; ++at) {
                const char next = line[at] == '\\' && at + 1 < line.size() ? line[++at] : '\0';
                if (next != '\0' && next != 'n' && next != '\\' && next != '"') return false;
                key += next == '\0' ? line[at] : next == 'n' ? '\n' : next;
            }
            if (at >= line.size()) return false;
            if (line[++at] != ',') break;
            ++at;
        }
        key += '}';
        return line[at++] == '}';
    }
};

} // namespace spider::test
