// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/fd.h"

#include "util/text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace spider::util {
namespace {

Error failed(const std::string &path) {
    return {errno == ENOENT ? Errc::not_found : Errc::system, path + ": " + std::strerror(errno)};
}

Result<std::string> read_all(const Fd &fd, const std::string &path, std::size_t limit) {
    struct stat about {};
    if (::fstat(fd.get(), &about) != 0) return failed(path);
    if (!S_ISREG(about.st_mode)) return Error{Errc::invalid, path + ": not a regular file"};
    if (static_cast<std::size_t>(about.st_size) > limit)
        return Error{Errc::invalid, path + ": larger than " + std::to_string(limit) + " bytes"};
    std::string text;
    char buffer[16384];
    for (;;) {
        const auto got = ::read(fd.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(path);
        if (got == 0) return text;
        text.append(buffer, static_cast<std::size_t>(got));
        if (text.size() > limit)
            return Error{Errc::invalid, path + ": larger than " + std::to_string(limit) + " bytes"};
    }
}

} // namespace

void Fd::reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
}

// O_NONBLOCK so that a named pipe in place of the file cannot hang the caller.
Result<std::string> read_file(const std::string &path, std::size_t limit) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return failed(path);
    return read_all(fd, path, limit);
}

Result<std::string> read_secret(const std::string &path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return failed(path);
    struct stat about {};
    if (::fstat(fd.get(), &about) != 0) return failed(path);
    if ((about.st_mode & 077) != 0)
        return Error{Errc::denied, path + ": readable by others than its owner; chmod 0600 it"};
    auto text = read_all(fd, path, 65536);
    if (!text) return text;
    auto secret = std::string(trim(*text));
    if (secret.empty()) return Error{Errc::invalid, path + ": empty"};
    return secret;
}

} // namespace spider::util
