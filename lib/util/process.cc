// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/process.h"

#include "util/fd.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spider::util {
namespace {

constexpr std::size_t most_output = 16u << 20;

Error failed(const Command &command, const std::string &why) {
    return {Errc::system, command.argv.front() + ": " + why};
}

// The child's side. Only async-signal-safe calls: the parent may have threads.
[[noreturn]] void become(const Command &command, char *const *argv, int in, int out, int err, int report) {
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    bool ready = ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1;
    if (!command.keep_stderr) ready = ready && ::dup2(err, 2) == 2;
    if (ready) {
        if (command.search_path)
            ::execvp(argv[0], argv);
        else
            ::execv(argv[0], argv);
    }
    const int why = errno;
    [[maybe_unused]] const auto written = ::write(report, &why, sizeof why);
    ::_exit(127);
}

int wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

struct Channel {
    Fd fd;
    std::string *text;
};

// Reads what there is; false when the other end is closed.
bool drain(Channel &channel) {
    std::array<char, 16384> buffer{};
    const auto got = ::read(channel.fd.get(), buffer.data(), buffer.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    if (channel.text->size() < most_output)
        channel.text->append(buffer.data(), static_cast<std::size_t>(got));
    return true;
}

// Feeds and reads the child until it has closed its outputs or the deadline has passed.
bool converse(const Command &command, Fd &input, Channel &out, Channel &err) {
    const SystemClock clock;
    const auto end = clock.elapsed() + command.deadline;
    std::size_t fed = 0;
    if (command.input.empty()) input.reset();
    while (out.fd || err.fd) {
        const auto left = end - clock.elapsed();
        if (left <= 0) return false;
        std::array<pollfd, 3> polled{pollfd{out.fd.get(), POLLIN, 0}, pollfd{err.fd.get(), POLLIN, 0},
                                     pollfd{input.get(), POLLOUT, 0}};
        if (::poll(polled.data(), polled.size(), static_cast<int>(left * 1000) + 1) < 0 && errno != EINTR)
            return false;
        if (polled[0].revents != 0 && !drain(out)) out.fd.reset();
        if (polled[1].revents != 0 && !drain(err)) err.fd.reset();
        if (polled[2].revents != 0) {
            // MSG_NOSIGNAL works on the socket pair, so SIGPIPE needs no handling.
            const auto sent =
                ::send(input.get(), command.input.data() + fed, command.input.size() - fed, MSG_NOSIGNAL);
            if (sent > 0) fed += static_cast<std::size_t>(sent);
            if ((sent < 0 && errno != EINTR && errno != EAGAIN) || fed == command.input.size()) input.reset();
        }
    }
    return true;
}

// After the outputs are closed the child may live on; it still has until the deadline.
bool exited_in_time(pid_t child, Seconds deadline, int &status) {
    const SystemClock clock;
    const auto end = clock.elapsed() + deadline;
    for (;;) {
        int raw = 0;
        const auto got = ::waitpid(child, &raw, WNOHANG);
        if (got == child) {
            status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
            return true;
        }
        if (got < 0 && errno != EINTR) { // somebody ignores SIGCHLD: the status is lost, the child is gone
            status = 0;
            return true;
        }
        if (clock.elapsed() > end) return false;
        ::usleep(2000);
    }
}

} // namespace

Result<Finished> run(const Command &command) {
    int in[2], out[2], err[2], report[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
        return failed(command, std::strerror(errno));
    const Fd child_in(in[0]);
    Fd input(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return failed(command, std::strerror(errno));
    Fd child_out(out[1]);
    Finished finished;
    Channel output{Fd(out[0]), &finished.out};
    if (::pipe2(err, O_CLOEXEC) != 0) return failed(command, std::strerror(errno));
    Fd child_err(err[1]);
    Channel errors{Fd(err[0]), &finished.err};
    if (::pipe2(report, O_CLOEXEC) != 0) return failed(command, std::strerror(errno));
    const Fd started(report[0]);
    Fd child_report(report[1]);

    std::vector<char *> argv;
    for (const auto &word : command.argv)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    const auto child = ::fork();
    if (child < 0) return failed(command, std::strerror(errno));
    if (child == 0)
        become(command, argv.data(), child_in.get(), child_out.get(), child_err.get(), child_report.get());
    child_out.reset();
    child_err.reset();
    child_report.reset();

    int why = 0;
    if (::read(started.get(), &why, sizeof why) == sizeof why) {
        wait_for(child);
        return failed(command, std::strerror(why));
    }
    ::fcntl(input.get(), F_SETFL, O_NONBLOCK);
    if (!converse(command, input, output, errors) ||
        !exited_in_time(child, command.deadline, finished.status)) {
        ::kill(-child, SIGKILL);
        ::kill(child, SIGKILL);
        wait_for(child);
        return Error{Errc::timeout, command.argv.front() + ": no end within " +
                                        std::to_string(static_cast<int>(command.deadline)) + " s"};
    }
    return finished;
}

} // namespace spider::util
