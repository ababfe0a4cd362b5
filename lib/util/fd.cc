// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/fd.h"

#include "util/text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
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

bool write_all(const Fd &fd, std::string_view text) {
    while (!text.empty()) {
        const auto put = ::write(fd.get(), text.data(), text.size());
        if (put < 0 && errno != EINTR) return false;
        text.remove_prefix(put < 0 ? 0 : static_cast<std::size_t>(put));
    }
    return ::fsync(fd.get()) == 0;
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

Result<std::string> replaceable(const std::string &path) {
    auto target = path;
    struct stat about {};
    if (::stat(path.c_str(), &about) == 0) {
        if (!S_ISREG(about.st_mode)) return Error{Errc::invalid, path + ": not a regular file"};
        const std::unique_ptr<char, void (*)(void *)> real(::realpath(path.c_str(), nullptr), std::free);
        if (real) target = real.get();
    } else if (errno != ENOENT) {
        return failed(path);
    }
    const auto slash = target.rfind('/');
    const auto folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
    if (::access(folder.c_str(), W_OK) != 0) return failed(path);
    return target;
}

Result<void> replace_file(const std::string &path, std::string_view text) {
    const auto target = replaceable(path);
    if (!target) return target.error();
    const auto unfinished = *target + ".new" + std::to_string(::getpid());
    const Fd fd(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd) return failed(unfinished);
    if (write_all(fd, text) && ::rename(unfinished.c_str(), target->c_str()) == 0) return {};
    auto error = failed(path);
    ::unlink(unfinished.c_str());
    return error;
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
