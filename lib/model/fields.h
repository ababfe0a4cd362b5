// SPDX-License-Identifier: GPL-3.0-or-later
// Strict reading of one JSON object: each read gives a sane value, the first trouble is kept with its place.
// For input that people write (plans, jobs, federations, model files); slurmrestd is read tolerantly
// (model/json.h).
#pragma once

#include "model/json.h"

#include <functional>
#include <limits>

namespace spider::model {

class Fields {
  public:
    // `place` begins every message: "plan: stages[2]". Both references must outlive this.
    Fields(const Json &object, std::string place, std::optional<Error> &trouble);

    [[nodiscard]] bool has(std::string_view key) const; // present and not null
    int integer(std::string_view key, int min, int max = std::numeric_limits<int>::max());
    int integer_or(std::string_view key, int fallback, int min, int max = std::numeric_limits<int>::max());
    double real(std::string_view key, double min, double max = std::numeric_limits<double>::max());
    // A number, or a list of `count` of them, each between 0 and `max`.
    std::vector<double> reals(std::string_view key, int count, double max);
    std::vector<int> integers_or_none(std::string_view key, int count); // each below `count`; sorted
    double real_or(std::string_view key, double fallback, double min);
    std::string text(std::string_view key);
    std::string text_or(std::string_view key, std::string_view fallback);
    bool flag_or(std::string_view key, bool fallback);
    std::vector<std::string> texts_or_none(std::string_view key); // a list of texts; absent = none
    const Json &object(std::string_view key);                     // {} in trouble
    const Json &list(std::string_view key);                       // [] in trouble

    // The enumerator that `named` finds for the text of `key`.
    template <class T>
    T choice_or(std::string_view key, T fallback, std::optional<T> (*named)(std::string_view)) {
        if (!has(key)) return fallback;
        const auto found = named(text(key));
        if (!found) fail(key, "unknown value '" + text_at(object_, key) + "'");
        return found.value_or(fallback);
    }

    void fail(std::string_view key, std::string_view what);
    [[nodiscard]] std::string place_of(std::string_view key) const;
    [[nodiscard]] bool failed() const { return trouble_.has_value(); }

  private:
    const Json &object_;
    std::string place_;
    std::optional<Error> &trouble_;
};

// Errors of a path: the file's text parsed as JSON, "PATH:LINE:COLUMN: why". At most `limit` bytes.
Result<Json> read_json_file(const std::string &path, std::size_t limit = 16u << 20);

} // namespace spider::model
