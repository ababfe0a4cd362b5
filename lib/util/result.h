// SPDX-License-Identifier: GPL-3.0-or-later
// Expected trouble as a value: Result<T> holds a T or an Error that says what was tried, on what, why it
// failed.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace spider::util {

enum class Errc {
    invalid,     // the input is wrong: the caller must change it
    not_found,   // no such site, job, file
    denied,      // the caller may not do this
    refused,     // the other side understood and said no
    unreachable, // nobody answered
    timeout,     // the deadline passed; the request may or may not have happened
    protocol,    // the other side answered something we do not understand
    system,      // the operating system said no
};

struct Error {
    Errc code = Errc::invalid;
    std::string what;

    // Adds the step on the way up: "site lyra: nodes: HTTP 503".
    [[nodiscard]] Error within(std::string_view step) && {
        what.insert(0, std::string(step) + ": ");
        return std::move(*this);
    }
    [[nodiscard]] Error within(std::string_view step) const & { return Error(*this).within(step); }
    bool operator==(const Error &) const = default;
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}     // NOLINT: a value is a Result
    Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {} // NOLINT: an Error is a Result

    [[nodiscard]] bool ok() const { return held_.index() == 0; }
    explicit operator bool() const { return ok(); }

    [[nodiscard]] const T &value() const & {
        assert(ok());
        return std::get<0>(held_);
    }
    [[nodiscard]] T &value() & {
        assert(ok());
        return std::get<0>(held_);
    }
    [[nodiscard]] T &&value() && {
        assert(ok());
        return std::get<0>(std::move(held_));
    }
    [[nodiscard]] const Error &error() const & {
        assert(!ok());
        return std::get<1>(held_);
    }
    [[nodiscard]] Error &&error() && {
        assert(!ok());
        return std::get<1>(std::move(held_));
    }

    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }

  private:
    std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {} // NOLINT: an Error is a Result

    [[nodiscard]] bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    [[nodiscard]] const Error &error() const & {
        assert(!ok_);
        return error_;
    }
    [[nodiscard]] Error &&error() && {
        assert(!ok_);
        return std::move(error_);
    }

  private:
    Error error_;
    bool ok_ = true;
};

} // namespace spider::util

namespace spider {
using util::Errc;
using util::Error;
using util::Result;
} // namespace spider
