// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/home_job.h"

#include "util/comment.h"
#include "util/fd.h"
#include "util/process.h"
#include "util/text.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr int pause_ms = 500; // between two looks of await_home_job()
constexpr int looks = 3;      // of find_home_job(), when squeue fails
constexpr Seconds tool_deadline = 10;

// A record of squeue begins with an id ("7", of an array "7_[1-3]") and a bar; other lines continue a
// comment.
bool begins_record(std::string_view line) {
    const auto id = line.substr(0, line.find('|'));
    return id.size() < line.size() && !id.empty() && std::isdigit(static_cast<unsigned char>(id[0])) != 0 &&
           id.find_first_not_of("0123456789_+[]-,%") == std::string_view::npos;
}

std::string last_line(const std::string &text) {
    const auto trimmed = util::trim(text);
    return std::string(trimmed.substr(trimmed.rfind('\n') + 1));
}

Result<std::string> tool(const std::string &what, std::vector<std::string> argv) {
    util::Command command;
    command.argv = std::move(argv);
    command.search_path = true;
    command.deadline = tool_deadline;
    auto ended = util::run(command);
    if (!ended) return ended.error();
    if (ended->status != 0)
        return Error{Errc::system,
                     what + ": exit status " + std::to_string(ended->status) + ": " + last_line(ended->err)};
    return std::move(ended->out);
}

// What in a user's environment would hide his job from squeue; -o alone does not win over SQUEUE_FORMAT2.
constexpr std::array filters{"SQUEUE_ACCOUNT", "SQUEUE_FORMAT2",   "SQUEUE_LICENSES",
                             "SQUEUE_NAMES",   "SQUEUE_PARTITION", "SQUEUE_QOS",
                             "SQUEUE_STATES",  "SQUEUE_USERS",     "SLURM_CLUSTERS"};

Found look(const std::string &job) {
    std::vector<std::string> argv{"env"};
    for (const auto *filter : filters)
        argv.insert(argv.end(), {"-u", filter});
    argv.insert(argv.end(), {"squeue", "--me", "-h", "-o", "%i|%k"});
    const auto printed = tool("squeue", std::move(argv));
    if (!printed) return printed.error();
    return home_job_in(*printed, job);
}

// True when the process has ended. A descriptor of it is not fooled by a reused id or a zombie.
bool gone_within(const util::Fd &process, pid_t id, int milliseconds) {
    pollfd polled{process.get(), POLLIN, 0};
    const bool ended = ::poll(&polled, process ? 1 : 0, milliseconds) > 0;
    return process ? ended : ::kill(id, 0) != 0 && errno == ESRCH;
}

} // namespace

std::optional<std::int64_t> home_job_in(std::string_view printed, std::string_view job) {
    std::optional<std::int64_t> found;
    std::optional<std::int64_t> current;
    std::string comment;
    const auto judge = [&] {
        const auto parsed = current ? util::parse_comment(comment) : std::nullopt;
        if (parsed && parsed->job == job && (!found || *found < *current)) found = current;
    };
    for (const auto &line : util::split(printed, '\n')) {
        if (begins_record(line)) {
            judge();
            current = util::to_int(line.substr(0, line.find('|'))); // none for an array: never ours
            comment = line.substr(line.find('|') + 1);
        } else {
            comment += "\n" + line;
        }
    }
    judge();
    return found;
}

Found find_home_job(const std::string &job) {
    for (int left = looks;;) {
        auto found = look(job);
        if (found || --left == 0) return found;
        ::poll(nullptr, 0, pause_ms);
    }
}

Found await_home_job(const std::string &job, pid_t submitter) {
    const util::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, submitter, 0)));
    bool gone = !process && errno == ESRCH;
    for (;;) {
        auto found = look(job);
        if (gone || (found && *found)) return found;
        gone = gone_within(process, submitter, pause_ms); // then one last look
    }
}

Result<std::string> stored_script(std::int64_t home_job) {
    // scontrol exits 0 when it is refused: what it printed decides.
    const auto script =
        tool("scontrol", {"scontrol", "write", "batch_script", std::to_string(home_job), "-"});
    if (!script) return script.error();
    if (!script->starts_with("#!"))
        return Error{Errc::system, "scontrol write batch_script " + std::to_string(home_job) +
                                       ": gave no script: " + last_line(script->substr(0, 200))};
    return *script;
}

void cancel_home_job(std::int64_t home_job) {
    [[maybe_unused]] const auto ignored = tool("scancel", {"scancel", std::to_string(home_job)});
}

} // namespace spider::cli
