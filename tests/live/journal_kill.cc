// SPDX-License-Identifier: GPL-3.0-or-later
// For tests only, by LD_PRELOAD: ends spiderflowd at its N-th point, as a crash there would. The points come
// from what it does and not from a list: before and after each write or sync of its journal, and after each
// request to a slurmrestd that may change something there, when it is under way and its answer is not read. A
// GET changes nothing: polls are no points, so that the N-th point of two runs is nearly the same one.
//   SPIDERFLOW_KILL_AT=N        counted from 1 at the start of the process; without it nothing is ended
//   SPIDERFLOW_KILL_COUNT=FILE  gets a line for each point that was passed: "17 after fdatasync
//   journal.db-wal"
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int slurmrestd_port = 6820;

// What a descriptor leads to, in words; empty: nothing that is watched.
struct Target {
    char name[96] = "";
    bool is_file = false;
    explicit operator bool() const { return name[0] != '\0'; }
};

// The words that enter the site before it (nsenter, sh, setpriv) have the library too.
bool armed() {
    static const bool is_broker = std::string_view(program_invocation_short_name) == "spiderflowd";
    return is_broker;
}

Target file_behind(int fd) {
    char link[32], path[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const auto size = ::readlink(link, path, sizeof path);
    Target target;
    if (size <= 0) return target;
    std::string_view name(path, static_cast<std::size_t>(size));
    name.remove_prefix(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
    for (const std::string_view end : {"journal.db", "journal.db-wal", "journal.db-journal"})
        if (name.ends_with(end)) {
            std::snprintf(target.name, sizeof target.name, "%.*s", static_cast<int>(name.size()),
                          name.data());
            target.is_file = true;
        }
    return target;
}

// "POST …" to 10.80.1.1, by the first word of what is sent; a body that is sent on its own is a point too.
Target slurmrestd_behind(int fd, std::string_view data) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    Target target;
    if (::getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) != 0 || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != slurmrestd_port || data.starts_with("GET "))
        return target;
    char address[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &peer.sin_addr, address, sizeof address);
    const auto line = data.substr(0, data.substr(0, 60).find(" HTTP"));
    const bool is_request = line.starts_with("POST ") || line.starts_with("DELETE ");
    const std::string_view shown = is_request ? line.substr(0, 60) : "more of a request";
    std::snprintf(target.name, sizeof target.name, "%s: %.*s", address, static_cast<int>(shown.size()),
                  shown.data());
    return target;
}

// Whether the write goes on with a row of them; a sync ends the row.
bool continues_row(const Target &target, bool is_sync) {
    static std::atomic<std::size_t> row{0}; // length of the file's name: they differ in it
    const auto file = is_sync ? 0 : std::string_view(target.name).size();
    return row.exchange(file) == file && !is_sync;
}

void pass(const char *when, const char *call, const Target &target) {
    static std::atomic<long> points{0};
    static const char *const at = std::getenv("SPIDERFLOW_KILL_AT");
    static const char *const file = std::getenv("SPIDERFLOW_KILL_COUNT");
    static const int told = file ? ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    const int kept = errno;
    const long point = ++points;
    char line[160];
    const int size = std::snprintf(line, sizeof line, "%ld %s %s %s\n", point, when, call, target.name);
    if (told >= 0) ::syscall(SYS_write, told, line, static_cast<std::size_t>(size));
    if (at && point == std::atol(at)) ::kill(::getpid(), SIGKILL);
    errno = kept;
}

template <class Call>
auto watched(const char *name, const Target &target, Call call) {
    if (target.is_file) pass("before", name, target);
    const auto result = call();
    if (target) pass("after", name, target);
    return result;
}

Target look(int fd, const void *data, std::size_t size) {
    if (!armed()) return {};
    const int kept = errno;
    auto target = file_behind(fd);
    if (!target) target = slurmrestd_behind(fd, {static_cast<const char *>(data), size});
    if (target.is_file && continues_row(target, size == 0)) target = {};
    errno = kept;
    return target;
}

template <class Function>
Function *next(Function *, const char *name) {
    return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

} // namespace

#define SF_INTERPOSE extern "C" __attribute__((visibility("default")))

SF_INTERPOSE ssize_t write(int fd, const void *data, size_t size) {
    static const auto real = next(&::write, "write");
    return watched("write", look(fd, data, size), [&] { return real(fd, data, size); });
}

SF_INTERPOSE ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    static const auto real = next(&::pwrite, "pwrite");
    return watched("pwrite", look(fd, data, size), [&] { return real(fd, data, size, at); });
}

SF_INTERPOSE ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    static const auto real = next(&::pwrite64, "pwrite64");
    return watched("pwrite64", look(fd, data, size), [&] { return real(fd, data, size, at); });
}

SF_INTERPOSE int fsync(int fd) {
    static const auto real = next(&::fsync, "fsync");
    return watched("fsync", look(fd, "", 0), [&] { return real(fd); });
}

SF_INTERPOSE int fdatasync(int fd) {
    static const auto real = next(&::fdatasync, "fdatasync");
    return watched("fdatasync", look(fd, "", 0), [&] { return real(fd); });
}

SF_INTERPOSE ssize_t send(int fd, const void *data, size_t size, int flags) {
    static const auto real = next(&::send, "send");
    return watched("send", look(fd, data, size), [&] { return real(fd, data, size, flags); });
}

SF_INTERPOSE ssize_t sendto(int fd, const void *data, size_t size, int flags, const sockaddr *to,
                            socklen_t length) {
    static const auto real = next(&::sendto, "sendto");
    return watched("sendto", look(fd, data, size), [&] { return real(fd, data, size, flags, to, length); });
}

SF_INTERPOSE ssize_t sendmsg(int fd, const msghdr *message, int flags) {
    static const auto real = next(&::sendmsg, "sendmsg");
    const bool any = message->msg_iovlen > 0;
    const auto target = any ? look(fd, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len) : Target{};
    return watched("sendmsg", target, [&] { return real(fd, message, flags); });
}
