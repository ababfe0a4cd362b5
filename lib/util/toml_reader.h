// SPDX-License-Identifier: GPL-3.0-or-later
// Tables of TOML keys -> members of a struct. Every complaint is "file:line:column: key: expected …".
#pragma once

#include "util/text.h"
#include "util/toml_place.h"

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace spider::util {

template <class T>
struct Key {
    std::string_view name;
    std::function<Result<void>(T &, const toml::node &, const Where &)> read;
};

template <class T>
Result<void> read_keys(T &value, const toml::node &node, const std::vector<Key<T>> &keys, const Where &where,
                       const std::string &section) {
    const auto *table = node.as_table();
    if (table == nullptr) return where.error(node, section, "a table");
    std::vector<std::string_view> names;
    for (const auto &key : keys)
        names.push_back(key.name);
    if (auto known = where.only(*table, names); !known) return known;
    for (const auto &key : keys) {
        const auto *found = table->get(key.name);
        if (found == nullptr) continue;
        if (auto read = key.read(value, *found, where.at_key(key.name)); !read) return read;
    }
    return {};
}

template <class T>
auto text(std::string T::*member) {
    return [member](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto text = node.value_exact<std::string>();
        if (!text || text->find('\n') != std::string::npos)
            return where.wrong(node, "a text in quotes, on one line");
        value.*member = *text;
        return {};
    };
}

template <class T>
auto path(std::string T::*member) {
    return [member](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto text = node.value_exact<std::string>();
        if (!text || text->empty() || text->front() != '/')
            return where.wrong(node, "an absolute path in quotes");
        value.*member = *text;
        return {};
    };
}

template <class T>
auto boolean(bool T::*member) {
    return [member](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto flag = node.value_exact<bool>();
        if (!flag) return where.wrong(node, "true or false");
        value.*member = *flag;
        return {};
    };
}

template <class T>
auto at_least(double T::*member, double least, bool excluded, const std::string &expected) {
    return [member, least, excluded, expected](T &value, const toml::node &node,
                                               const Where &where) -> Result<void> {
        const auto number = node.is_number() ? node.value<double>() : std::nullopt;
        if (!number || !std::isfinite(*number) || *number < least || (excluded && *number == least))
            return where.wrong(node, expected);
        value.*member = *number;
        return {};
    };
}

template <class T>
auto positive(double T::*member) {
    return at_least(member, 0, true, "a number above 0");
}
template <class T>
auto not_negative(double T::*member) {
    return at_least(member, 0, false, "a number, 0 or more");
}
template <class T>
auto seconds(double T::*member, double least) {
    return at_least(member, least, false, "a number of seconds, " + util::number(least) + " or more");
}

template <class T>
auto whole(std::int64_t T::*member, std::int64_t least, std::int64_t most) {
    return [member, least, most](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto number = node.value_exact<std::int64_t>();
        if (!number || *number < least || *number > most)
            return where.wrong(node, "a whole number between " + std::to_string(least) + " and " +
                                         std::to_string(most));
        value.*member = *number;
        return {};
    };
}

template <class T>
auto texts(std::vector<std::string> T::*member) {
    return [member](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto *list = node.as_array();
        if (list == nullptr) return where.wrong(node, "a list of texts: [\"a\", \"b\"]");
        std::vector<std::string> found;
        for (const auto &item : *list) {
            const auto text = item.template value_exact<std::string>();
            if (!text) return where.wrong(item, "a text in quotes");
            found.push_back(*text);
        }
        value.*member = std::move(found);
        return {};
    };
}

template <class T>
auto map(std::map<std::string, std::string> T::*member) {
    return [member](T &value, const toml::node &node, const Where &where) -> Result<void> {
        const auto *table = node.as_table();
        if (table == nullptr) return where.wrong(node, "a table: { here = \"there\" }");
        for (const auto &[key, item] : *table) {
            const auto text = item.template value_exact<std::string>();
            if (!text) return where.wrong(item, "a text in quotes");
            (value.*member)[std::string(key.str())] = *text;
        }
        return {};
    };
}

} // namespace spider::util
