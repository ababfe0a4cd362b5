// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/placing.h"

#include "cli/common.h"
#include "cli/exported.h"
#include "cli/home_job.h"
#include "cli/sbatch_options.h"
#include "model/spec.h"
#include "util/clock.h"
#include "wire/limits.h"

#include <algorithm>
#include <sys/stat.h>

namespace spider::cli {
namespace {

constexpr Seconds plan_deadline = 4;   // a dead or hung broker fails sbatch within 5 s
constexpr Seconds place_deadline = 45; // in all; the plugin gives its helper a little more
constexpr Seconds least_deadline = 10; // what the broker gets when squeue was slow

int own_umask() {
    const auto mask = ::umask(077);
    ::umask(mask);
    return static_cast<int>(mask);
}

// Where the script runs: sbatch's --chdir, else where sbatch was typed.
std::string home_directory(const wire::Names &options, const std::string &cwd) {
    const auto chdir = options.find("chdir");
    if (chdir == options.end() || chdir->second.empty()) return cwd;
    return chdir->second.front() == '/' ? chdir->second : cwd + "/" + chdir->second;
}

Result<wire::PlaceRequest> request_for(const Submission &submission, std::int64_t home_job) {
    wire::PlaceRequest request;
    request.home_job = home_job;
    auto script = stored_script(home_job);
    if (!script) return script.error();
    if (!is_utf8(*script))
        return Error{Errc::invalid,
                     "the script is not UTF-8, and slurmrestd takes nothing else; convert it (iconv(1))"};
    for (const auto &argument : submission.arguments)
        if (!is_utf8(argument)) return Error{Errc::invalid, "an argument of the script is not UTF-8"};
    request.script = std::move(*script);
    request.arguments = submission.arguments;
    request.environment = exported(own_environment(), submission.export_value);
    request.umask = own_umask();
    auto stage = pack(submission.travelling);
    if (!stage) return std::move(stage).error();
    request.stage = std::move(*stage);
    request.spank_options = spank_options(own_environment());
    return request;
}

std::string placed_line(const std::string &job, const wire::PlaceReply &reply) {
    std::string line = "job " + job + ":";
    for (const auto &part : reply.parts)
        line += (&part == reply.parts.data() ? " " : ", ") + part.site + " job " + std::to_string(part.job);
    return line + "; follow it with: spiderflow status " + job;
}

Error without_home_part(wire::Client &client, const std::string &job) {
    const auto dropped = client.drop(job);
    return {Errc::not_found,
            "no job was submitted; plan " + job + (dropped ? " is dropped" : " expires by itself")};
}

} // namespace

Result<Planned> ask_plan(const std::string &socket, const SpecText &spec, const wire::Names &options,
                         bool test_only) {
    if (const auto refused = refusal(options)) return *refused;
    wire::PlanRequest request;
    request.cwd = working_directory();
    auto job = model::read_spec(spec.text, spec.defaults, request.cwd);
    if (!job) return job.error();
    Travelling travelling{home_directory(options, request.cwd), job->travelling};
    if (auto good = look(travelling); !good) return std::move(good).error();
    const auto limits = wire::limits_of(options);
    if (!limits) return limits.error();
    request.spec = std::move(*job);
    request.spec.limits = *limits;
    request.options = carried(options);
    request.test_only = test_only;
    wire::Client client(socket);
    auto reply = client.plan(request, plan_deadline);
    if (!reply) return std::move(reply).error();
    if (reply->plan.outcome == Outcome::infeasible)
        return Error{Errc::refused, "no plan: " + reply->plan.reason};
    return Planned{std::move(*reply), std::move(travelling)};
}

Result<std::string> place(const std::string &socket, const Submission &submission) {
    const util::SystemClock clock;
    wire::Client client(socket);
    auto end = clock.elapsed() + place_deadline;
    const auto found = submission.submitter ? await_home_job(submission.job, *submission.submitter)
                                            : find_home_job(submission.job);
    if (submission.submitter) end = clock.elapsed() + place_deadline;
    if (!found) {
        [[maybe_unused]] const auto dropped = client.drop(submission.job);
        return found.error().within("job " + submission.job +
                                    " is given up: its home part cannot be looked for");
    }
    if (!*found) return without_home_part(client, submission.job);
    const auto request = request_for(submission, **found);
    auto reply = request
                     ? client.place(submission.job, *request, std::max(least_deadline, end - clock.elapsed()))
                     : Result<wire::PlaceReply>(request.error());
    if (reply) return placed_line(submission.job, *reply);
    // The broker cancels what it placed; the home part is also ours to cancel, should the broker be gone.
    cancel_home_job(**found);
    if (!request) [[maybe_unused]]
        const auto dropped = client.drop(submission.job);
    return std::move(reply).error().within("job " + submission.job + " is cancelled");
}

} // namespace spider::cli
