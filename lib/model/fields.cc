// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/fields.h"

#include "util/fd.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>

namespace spider::model {

namespace {

std::string range(double min, double max) {
    const auto least = util::number(min, 12);
    if (max == std::numeric_limits<int>::max() || max == std::numeric_limits<double>::max())
        return "of at least " + least;
    return "between " + least + " and " + util::number(max, 12);
}

} // namespace

Fields::Fields(const Json &object, std::string place, std::optional<Error> &trouble)
    : object_(object), place_(std::move(place)), trouble_(trouble) {
    if (!object.is_object() && !trouble_) trouble_ = Error{Errc::invalid, place_ + ": expected an object"};
}

std::string Fields::place_of(std::string_view key) const { return place_ + ": " + std::string(key); }

void Fields::fail(std::string_view key, std::string_view what) {
    if (!trouble_) trouble_ = Error{Errc::invalid, place_of(key) + ": " + std::string(what)};
}

bool Fields::has(std::string_view key) const { return !at(object_, key).is_null(); }

int Fields::integer(std::string_view key, int min, int max) {
    const auto &value = at(object_, key);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (number >= min && number <= max && number == std::floor(number)) return static_cast<int>(number);
    if (value.is_null())
        fail(key, "missing; expected a whole number " + range(min, max));
    else
        fail(key, "expected a whole number " + range(min, max));
    return min;
}

int Fields::integer_or(std::string_view key, int fallback, int min, int max) {
    return has(key) ? integer(key, min, max) : fallback;
}

double Fields::real(std::string_view key, double min, double max) {
    const auto &value = at(object_, key);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (number >= min && number <= max) return number;
    fail(key, std::string(value.is_null() ? "missing; " : "") + "expected a number " + range(min, max));
    return min;
}

std::vector<double> Fields::reals(std::string_view key, int count, double max) {
    const auto &value = at(object_, key);
    const auto sane = [max](const Json &item) {
        const double number = item.is_number() ? item.get<double>() : std::nan("");
        return number >= 0 && number <= max;
    };
    if (sane(value)) return {value.get<double>()};
    const auto wanted = "a number " + range(0, max) + ", or a list of " + std::to_string(count);
    if (value.is_array() && value.size() == static_cast<std::size_t>(count)) {
        if (std::all_of(value.begin(), value.end(), sane)) return value.get<std::vector<double>>();
        fail(key, "expected " + wanted);
    } else if (value.is_array()) {
        fail(key, "expected " + wanted + "; the list has " + std::to_string(value.size()));
    } else {
        fail(key, std::string(value.is_null() ? "missing; " : "") + "expected " + wanted);
    }
    return {0};
}

std::vector<int> Fields::integers_or_none(std::string_view key, int count) {
    std::vector<int> numbers;
    if (!has(key)) return numbers;
    for (const auto &item : list(key)) {
        const double number = item.is_number() ? item.get<double>() : std::nan("");
        if (number >= 0 && number < count && number == std::floor(number))
            numbers.push_back(static_cast<int>(number));
        else
            fail(key, "expected a list of whole numbers below " + std::to_string(count));
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

double Fields::real_or(std::string_view key, double fallback, double min) {
    return has(key) ? real(key, min) : fallback;
}

std::string Fields::text(std::string_view key) {
    const auto &value = at(object_, key);
    if (value.is_string()) return value.get_ref<const std::string &>();
    fail(key, value.is_null() ? "missing; expected a text" : "expected a text");
    return {};
}

std::string Fields::text_or(std::string_view key, std::string_view fallback) {
    return has(key) ? text(key) : std::string(fallback);
}

bool Fields::flag_or(std::string_view key, bool fallback) {
    const auto &value = at(object_, key);
    if (value.is_boolean()) return value.get<bool>();
    if (!value.is_null()) fail(key, "expected true or false");
    return fallback;
}

std::vector<std::string> Fields::texts_or_none(std::string_view key) {
    std::vector<std::string> texts;
    if (!has(key)) return texts;
    for (const auto &item : list(key)) {
        if (item.is_string())
            texts.push_back(item.get_ref<const std::string &>());
        else
            fail(key, "expected a list of texts");
    }
    return texts;
}

const Json &Fields::object(std::string_view key) {
    static const Json none = Json::object();
    const auto &value = at(object_, key);
    if (value.is_object()) return value;
    fail(key, value.is_null() ? "missing; expected an object" : "expected an object");
    return none;
}

const Json &Fields::list(std::string_view key) {
    static const Json none = Json::array();
    const auto &value = at(object_, key);
    if (value.is_array()) return value;
    fail(key, value.is_null() ? "missing; expected a list" : "expected a list");
    return none;
}

Result<Json> read_json_file(const std::string &path, std::size_t limit) {
    auto text = util::read_file(path, limit);
    if (!text) return std::move(text).error();
    auto json = parse_json(*text);
    if (!json) return Error{json.error().code, path + ":" + json.error().what};
    return json;
}

} // namespace spider::model
