// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/files.h"

#include "util/schedule.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace spider::spank {
namespace {

constexpr const char *schedule = "schedule.csv";
constexpr const char *plan = "plan.json";
constexpr int first_descriptor = 200; // above those that scripts number themselves

Error trouble(const std::string &name) {
    return {Errc::system, "file " + name + " of the trainer: " + std::strerror(errno)};
}

// Not closed on exec: the task is to find it.
Result<std::string> put(const std::string &name, const std::string &text) {
    const int made = ::memfd_create(name.c_str(), 0);
    const int file = made < 0 ? -1 : ::fcntl(made, F_DUPFD, first_descriptor);
    if (file < 0) return trouble(name);
    ::close(made);
    for (std::size_t at = 0; at < text.size();) {
        const auto written = ::write(file, text.data() + at, text.size() - at);
        if (written < 0) return trouble(name);
        at += static_cast<std::size_t>(written);
    }
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
}

} // namespace

Result<std::vector<std::pair<std::string, std::string>>> trainer_environment(const Carriers &carriers) {
    auto files = carriers.files;
    auto arguments = carriers.arguments;
    if (arguments.find(std::string("@") + schedule + "@") != std::string::npos)
        files.emplace_back(schedule, util::schedule_csv(carriers.depths, carriers.micro_batches));
    std::vector<std::pair<std::string, std::string>> environment;
    for (const auto &[name, text] : files) {
        const auto path = put(name, text);
        if (!path) return path.error();
        const auto mark = "@" + name + "@";
        for (std::size_t at = 0; (at = arguments.find(mark, at)) != std::string::npos; at += path->size())
            arguments.replace(at, mark.size(), *path);
        if (name == plan) environment.emplace_back("SPIDERFLOW_PLAN_FILE", *path);
    }
    environment.emplace_back("SPIDERFLOW_TRAINER_ARGS", arguments);
    return environment;
}

} // namespace spider::spank
