// SPDX-License-Identifier: GPL-3.0-or-later
// Strict reader of one JSON object: an absent key keeps the default, a wrong type is the error. Inside
// lib/wire only.
#pragma once

#include "wire/messages.h"

#include <limits>

namespace spider::wire {

class Fields {
  public:
    explicit Fields(const Json &object) : object_(object) {
        if (!object.is_object()) trouble_ = Error{Errc::invalid, "expected a JSON object"};
    }

    Fields &need(std::string_view key) {
        if (!trouble_ && model::at(object_, key).is_null()) wrong(key, "missing");
        return *this;
    }
    Fields &read(std::string_view key, std::string &value);
    Fields &read(std::string_view key, bool &value);
    Fields &read(std::string_view key, double &value);
    Fields &read(std::string_view key, std::int64_t &value);
    Fields &read(std::string_view key, int &value);
    Fields &read(std::string_view key, std::vector<std::string> &value);
    Fields &read(std::string_view key, Names &value);
    Fields &read(std::string_view key, Pairs &value);

    // An array of objects, or an object that another reader understands.
    template <class T, class Read>
    Fields &list(std::string_view key, std::vector<T> &values, Read reader) {
        const auto *array = find(key);
        if (array == nullptr) return *this;
        if (!array->is_array()) return wrong(key, "expected an array");
        for (const auto &entry : *array) {
            auto value = reader(entry);
            if (!value) return wrong(key, value.error().what);
            values.push_back(std::move(value).value());
        }
        return *this;
    }
    template <class T, class Read>
    Fields &object(std::string_view key, T &target, Read reader) {
        const auto *found = find(key);
        if (found == nullptr) return *this;
        auto value = reader(*found);
        if (!value) return wrong(key, value.error().what);
        target = std::move(value).value();
        return *this;
    }

    template <class T>
    Result<T> done(T value) {
        if (trouble_) return *trouble_;
        return value;
    }

  private:
    const Json &object_;
    std::optional<Error> trouble_;

    const Json *find(std::string_view key) const; // null: absent, or trouble before
    Fields &wrong(std::string_view key, const std::string &why);
};

} // namespace spider::wire
