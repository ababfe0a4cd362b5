// SPDX-License-Identifier: GPL-3.0-or-later
// The wall: what nlohmann/json throws ends in this file.
#include "model/json.h"

#include "util/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace spider::model {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// ordered_json finds a key by walking: without a limit a hostile object costs quadratic time. Slurm's largest
// objects (its own OpenAPI description) have some hundred keys.
constexpr int max_keys = 10'000;

std::string place_of(std::string_view text, std::size_t offset) {
    offset = std::min(offset, text.size());
    const auto before = text.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto line_end = before.rfind('\n');
    const auto column = line_end == std::string_view::npos ? offset + 1 : offset - line_end;
    return std::to_string(line) + ":" + std::to_string(column);
}

Error refused(std::string_view text, std::size_t offset, const std::string &why) {
    return {Errc::invalid, place_of(text, offset) + ": " + why};
}

// Nesting and width before any tree is built: a stack is finite, and so is patience.
std::optional<Error> too_deep_or_wide(std::string_view text, int max_depth) {
    std::vector<int> commas; // of each open bracket
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (static_cast<int>(commas.size()) == max_depth)
                return refused(text, i, "nested deeper than " + std::to_string(max_depth) + " levels");
            commas.push_back(c == '{' ? 0 : std::numeric_limits<int>::min()); // lists may be long
        } else if ((c == ']' || c == '}') && !commas.empty()) {
            commas.pop_back();
        } else if (c == ',' && !commas.empty() && ++commas.back() >= max_keys) {
            return refused(text, i, "an object with more than " + std::to_string(max_keys) + " keys");
        }
    }
    return std::nullopt;
}

// "[json.exception.parse_error.101] parse error at line 1, column 6: syntax error while parsing value -
// unexpected
// '}'; expected ..." -> "unexpected '}'; expected ...", printable and short.
std::string in_one_line(std::string_view what) {
    for (const std::string_view mark : {" - ", "] "}) {
        const auto found = what.find(mark);
        if (found == std::string_view::npos) continue;
        what = what.substr(found + mark.size());
        break;
    }
    std::string line(what.substr(0, 160));
    for (char &c : line)
        if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    return line;
}

bool is_infinite(std::string_view text) {
    std::string lower(text);
    for (char &c : lower)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower == "infinity" || lower == "infinite" || lower == "unlimited" || lower == "inf";
}

} // namespace

Result<Json> parse_json(std::string_view text, int max_depth) {
    if (auto trouble = too_deep_or_wide(text, max_depth)) return std::move(*trouble);
    try {
        return Json::parse(text);
    } catch (const Json::parse_error &error) {
        return refused(text, error.byte == 0 ? 0 : error.byte - 1, in_one_line(error.what()));
    } catch (const Json::exception &error) {
        return refused(text, 0, in_one_line(error.what()));
    }
}

std::string print_json(const Json &json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const Json &at(const Json &object, std::string_view key) {
    static const Json none;
    if (!object.is_object()) return none;
    const auto found = object.find(key);
    return found == object.end() ? none : *found;
}

std::string text_at(const Json &object, std::string_view key, std::string_view fallback) {
    const auto &value = at(object, key);
    return value.is_string() ? value.get_ref<const std::string &>() : std::string(fallback);
}

bool bool_at(const Json &object, std::string_view key, bool fallback) {
    const auto &value = at(object, key);
    return value.is_boolean() ? value.get<bool>() : fallback;
}

std::vector<std::string> texts_at(const Json &object, std::string_view key) {
    const auto &value = at(object, key);
    if (value.is_string()) return util::split(value.get_ref<const std::string &>(), ',');
    std::vector<std::string> texts;
    if (!value.is_array()) return texts;
    for (const auto &item : value)
        if (item.is_string()) texts.push_back(item.get_ref<const std::string &>());
    return texts;
}

std::optional<double> number_of(const Json &value) {
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) {
        const auto &text = value.get_ref<const std::string &>();
        return is_infinite(text) ? infinity : util::to_double(util::trim(text));
    }
    if (!value.is_object()) return std::nullopt;
    if (bool_at(value, "infinite")) return infinity;
    if (!bool_at(value, "set", true)) return std::nullopt;
    const auto &number = at(value, "number");
    return number.is_object() ? std::nullopt : number_of(number);
}

std::optional<double> number_at(const Json &object, std::string_view key) {
    return number_of(at(object, key));
}

} // namespace spider::model
