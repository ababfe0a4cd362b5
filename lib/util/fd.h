// SPDX-License-Identifier: GPL-3.0-or-later
// Owner of one file descriptor; closes it when it goes. Not shared between threads.
#pragma once

#include "util/result.h"

#include <string>
#include <utility>

namespace spider::util {

class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd &operator=(Fd &&other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }
    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1);

  private:
    int fd_ = -1;
};

// The whole of a regular file, at most `limit` bytes; the error names the path and the reason.
Result<std::string> read_file(const std::string &path, std::size_t limit = 64u << 20);

// What replace_file() would write: `path`, or what it links to. An error when it is no regular file, or its
// folder cannot be written.
Result<std::string> replaceable(const std::string &path);

// Makes a file or puts a new one in its place: readers see the old text or the whole new one.
Result<void> replace_file(const std::string &path, std::string_view text);

// A secret: a regular file of at most 64 KiB that only its owner can read (as munge.key); trailing blanks are
// cut.
Result<std::string> read_secret(const std::string &path);

} // namespace spider::util
