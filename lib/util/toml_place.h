// SPDX-License-Identifier: GPL-3.0-or-later
// Where in a TOML file something stands, and the complaint about it: "file:line:column: key: expected …".
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "util/result.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace spider::util {

class Where {
  public:
    explicit Where(std::string file) : file_(std::move(file)) {}
    [[nodiscard]] const std::string &file() const { return file_; }
    [[nodiscard]] std::string place(const toml::node &node) const { return place(node.source().begin); }
    [[nodiscard]] Error error(const toml::node &node, std::string_view key, std::string_view expected) const {
        return {Errc::invalid, place(node) + std::string(key) + ": expected " + std::string(expected)};
    }
    [[nodiscard]] Error wrong(const toml::node &node, std::string_view expected) const {
        return error(node, key_, expected);
    }
    [[nodiscard]] Where at_key(std::string_view key) const {
        Where inner(*this);
        inner.key_ = key;
        return inner;
    }
    // The key may stand there, wrong, or not at all.
    [[nodiscard]] Error missing(const toml::table &table, std::string_view key,
                                std::string_view expected) const {
        const auto *node = table.get(key);
        return error(node != nullptr ? *node : static_cast<const toml::node &>(table), key, expected);
    }
    [[nodiscard]] Result<void> only(const toml::table &table,
                                    const std::vector<std::string_view> &known) const {
        for (const auto &[key, node] : table) {
            if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
            std::string names;
            for (const auto name : known)
                names += (names.empty() ? "" : ", ") + std::string(name);
            return Error{Errc::invalid, place(key.source().begin) + "unknown key '" + std::string(key.str()) +
                                            "'; known: " + names};
        }
        return {};
    }

  private:
    [[nodiscard]] std::string place(const toml::source_position &at) const {
        return file_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    }
    std::string file_;
    std::string key_; // that is being read
};

} // namespace spider::util
