// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/spec_source.h"

#include "model/fields.h"
#include "util/fd.h"
#include "util/text.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <optional>

namespace spider::model {

namespace {

constexpr std::size_t file_limit = 1u << 20;
constexpr std::string_view wanted = "expected a text, a whole number or a list of texts";

Error wrong(const std::string &place, const std::string &why) { return {Errc::invalid, place + ": " + why}; }

std::optional<std::string> text_of(const toml::node &node) {
    if (const auto *text = node.as_string()) return text->get();
    if (const auto *number = node.as_integer()) return std::to_string(number->get());
    const auto *list = node.as_array();
    if (!list) return std::nullopt;
    std::vector<std::string> texts;
    for (const auto &item : *list) {
        const auto *text = item.as_string();
        if (!text) return std::nullopt;
        texts.push_back(text->get());
    }
    return util::join(texts, "+");
}

std::optional<std::string> text_of(const Json &json) {
    if (json.is_string()) return json.get_ref<const std::string &>();
    if (json.is_number_integer()) return print_json(json);
    if (!json.is_array()) return std::nullopt;
    for (const auto &item : json)
        if (!item.is_string()) return std::nullopt;
    return util::join(json.get<std::vector<std::string>>(), "+");
}

std::string at_line(const std::string &path, const toml::source_position &position) {
    return path + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
}

Result<std::vector<Setting>> from_toml(const std::string &path) {
    const auto text = util::read_file(path, file_limit);
    if (!text) return text.error();
    const auto parsed = toml::parse(std::string_view(*text), std::string_view(path));
    if (!parsed)
        return wrong(at_line(path, parsed.error().source().begin), std::string(parsed.error().description()));
    std::vector<Setting> settings;
    for (const auto &[key, node] : parsed.table()) {
        const auto place = at_line(path, key.source().begin);
        const auto value = text_of(node);
        if (!value) return wrong(place, std::string(key.str()) + ": " + std::string(wanted));
        settings.push_back({std::string(key.str()), *value, place});
    }
    return settings;
}

Result<std::vector<Setting>> from_json(const std::string &path) {
    const auto json = read_json_file(path, file_limit);
    if (!json) return json.error();
    if (!json->is_object()) return wrong(path, "expected an object");
    std::vector<Setting> settings;
    for (const auto &[key, node] : json->items()) {
        const auto value = text_of(node);
        if (!value) return wrong(path, key + ": " + std::string(wanted));
        settings.push_back({key, *value, path});
    }
    return settings;
}

bool names_a_file(std::string_view text) { return text.ends_with(".toml") || text.ends_with(".json"); }

bool same_ignoring_blanks(std::string_view a, std::string_view b) { return util::trim(a) == b; }

} // namespace

bool says_nothing(std::string_view text) {
    return same_ignoring_blanks(text, "") || same_ignoring_blanks(text, "(null)");
}

std::string resolved(const std::string &path, const std::string &directory) {
    return path.starts_with('/') || directory.empty() ? path : directory + "/" + path;
}

Result<std::vector<Setting>> split_settings(std::string_view text, std::string_view place) {
    std::vector<Setting> settings;
    text = util::trim(text);
    if (says_nothing(text) || (text.find('=') == std::string_view::npos && names_a_file(text)))
        return settings;
    for (const auto &word : util::split(text, ',')) {
        const auto equals = word.find('=');
        const std::string key(util::trim(std::string_view(word).substr(0, equals)));
        if (equals == std::string::npos || key.empty())
            return wrong(std::string(place),
                         "'" + word + "' is not key=value, nor the path of a .toml or .json file");
        const std::string value(util::trim(std::string_view(word).substr(equals + 1)));
        if (value.empty()) return wrong(std::string(place), key + " has no value");
        for (const auto &other : settings)
            if (other.key == key) return wrong(std::string(place), key + " is given twice");
        settings.push_back({key, value, std::string(place)});
    }
    return settings;
}

Result<std::vector<Setting>> read_settings(std::string_view text, std::string_view place,
                                           const std::string &directory) {
    text = util::trim(text);
    if (says_nothing(text) || text.find('=') != std::string_view::npos || !names_a_file(text))
        return split_settings(text, place);
    const auto path = resolved(std::string(text), directory);
    return path.ends_with(".toml") ? from_toml(path) : from_json(path);
}

} // namespace spider::model
