// SPDX-License-Identifier: GPL-3.0-or-later
#include "wire/fields.h"

namespace spider::wire {

const Json *Fields::find(std::string_view key) const {
    if (trouble_) return nullptr;
    const auto &value = model::at(object_, key);
    return value.is_null() ? nullptr : &value;
}

Fields &Fields::wrong(std::string_view key, const std::string &why) {
    if (!trouble_) trouble_ = Error{Errc::invalid, std::string(key) + ": " + why};
    return *this;
}

Fields &Fields::read(std::string_view key, std::string &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_string()) return wrong(key, "expected a string");
    value = found->get<std::string>();
    // What we carry ends up in C strings: environment, arguments, comments.
    if (value.find('\0') != std::string::npos) return wrong(key, "contains a NUL");
    return *this;
}

Fields &Fields::read(std::string_view key, bool &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_boolean()) return wrong(key, "expected true or false");
    value = found->get<bool>();
    return *this;
}

Fields &Fields::read(std::string_view key, double &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_number()) return wrong(key, "expected a number");
    value = found->get<double>();
    return *this;
}

Fields &Fields::read(std::string_view key, std::int64_t &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_number_integer()) return wrong(key, "expected a whole number");
    if (found->is_number_unsigned() &&
        found->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return wrong(key, "out of range");
    value = found->get<std::int64_t>();
    return *this;
}

Fields &Fields::read(std::string_view key, int &value) {
    std::int64_t wide = value;
    read(key, wide);
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
        return wrong(key, "out of range");
    value = static_cast<int>(wide);
    return *this;
}

Fields &Fields::read(std::string_view key, std::vector<std::string> &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_array()) return wrong(key, "expected an array");
    for (const auto &entry : *found) {
        if (!entry.is_string() || entry.get_ref<const std::string &>().find('\0') != std::string::npos)
            return wrong(key, "expected strings without NUL");
        value.push_back(entry.get<std::string>());
    }
    return *this;
}

Fields &Fields::read(std::string_view key, Names &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_object()) return wrong(key, "expected an object");
    for (const auto &[name, entry] : found->items()) {
        if (!entry.is_string() || name.empty() ||
            name.find_first_of(std::string_view("=\0", 2)) != std::string::npos ||
            entry.get_ref<const std::string &>().find('\0') != std::string::npos)
            return wrong(key, "expected names and strings without NUL");
        value[name] = entry.get<std::string>();
    }
    return *this;
}

Fields &Fields::read(std::string_view key, Pairs &value) {
    const auto *found = find(key);
    if (found == nullptr) return *this;
    if (!found->is_array()) return wrong(key, "expected an array");
    for (const auto &entry : *found) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
            return wrong(key, "expected pairs of strings");
        value.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    }
    return *this;
}

} // namespace spider::wire
