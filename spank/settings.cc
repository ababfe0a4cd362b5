// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/settings.h"

#include <array>

namespace spider::spank {
namespace {

struct Key {
    std::string_view name;
    std::string Settings::*field;
};
constexpr std::array keys{
    Key{"helper", &Settings::helper},
    Key{"socket", &Settings::socket},
    Key{"bindir", &Settings::bindir},
};

const Key *find_key(std::string_view name) {
    for (const auto &key : keys)
        if (key.name == name) return &key;
    return nullptr;
}

} // namespace

std::vector<std::string> read_settings(int count, char **arguments, Settings &settings) {
    std::vector<std::string> complaints;
    for (int i = 0; i < count; ++i) {
        const std::string_view word = arguments[i];
        const auto equals = word.find('=');
        const Key *key = find_key(word.substr(0, equals));
        if (key == nullptr) {
            complaints.push_back("plugstack.conf: unknown argument '" + std::string(word.substr(0, equals)) +
                                 "': expected helper=, socket= or bindir=");
        } else if (equals == std::string_view::npos || word.substr(equals + 1, 1) != "/") {
            complaints.push_back("plugstack.conf: " + std::string(key->name) + ": expected " +
                                 std::string(key->name) + "=/absolute/path");
        } else {
            settings.*key->field = std::string(word.substr(equals + 1));
        }
    }
    return complaints;
}

std::string spec_of(const char *argument) {
    const std::string_view spec = argument == nullptr ? "" : argument;
    return spec == "(null)" ? std::string() : std::string(spec);
}

} // namespace spider::spank
