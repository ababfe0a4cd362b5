// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/submit.h"

#include "spank/carriers.h"
#include "spank/guard.h"
#include "spank/hook.h"
#include "spank/options.h"
#include "spank/rank.h"
#include "spank/word.h"
#include "util/text.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace spider::spank {
namespace {

constexpr Seconds plan_deadline = 20;     // the helper gives a dead broker up sooner
constexpr Seconds place_deadline = 60;    // each site answers within the broker's shorter deadlines
constexpr Seconds drop_deadline = 5;      // a plan that is not dropped expires at the broker
constexpr Seconds child_deadline = 86400; // the helper ends with sbatch long before
constexpr Seconds child_grace = 1;        // its last words come with the cancel that ends sbatch's wait

// What the plan depends on, or what every part needs: names of Slurm's option table.
constexpr const char *told[] = {
    "account",    "array",         "begin",      "chdir",           "clusters",      "comment",
    "constraint", "cpus-per-task", "deadline",   "dependency",      "error",         "exclude",
    "exclusive",  "export",        "gpus",       "gpus-per-node",   "gpus-per-task", "gres",
    "hold",       "job-name",      "mem",        "mem-per-cpu",     "mem-per-gpu",   "nice",
    "nodelist",   "nodes",         "ntasks",     "ntasks-per-node", "output",        "partition",
    "qos",        "requeue",       "no-requeue", "signal",          "time",          "wait",
};

// Of the two spellings of one option Slurm gives the one that counts as the value of both.
bool is_overruled(std::string_view name, std::string_view value) {
    return (value == "requeue" && name == "no-requeue") || (value == "no-requeue" && name == "requeue");
}

[[noreturn]] void fail(const std::string &why) {
    slurm_spank_log("spiderflow: %s", why.c_str());
    std::exit(1); // honoured by sbatch and srun, whereas a hook's status is not when the plugin is optional
}

void say(const Reply &reply) {
    for (const auto &line : reply.say)
        slurm_spank_log("spiderflow: %s", line.c_str());
}

void drop(const Settings &settings, Submission &submission) {
    if (submission.id.empty()) return;
    [[maybe_unused]] const auto reply = ask_helper(settings, {"drop", submission.id}, "", drop_deadline);
    submission.id.clear();
}

OptionTable option_table() {
    const auto table = OptionTable::find();
    if (!table)
        fail("this Slurm does not let a plugin set sbatch's options: use `spiderflow submit` instead of "
             "sbatch --spiderflow");
    return *table;
}

std::string plan_request(const Asked &asked, const OptionTable &table) {
    std::string input;
    add_line(input, "spec", asked.spec);
    for (const char *name : told)
        if (const auto value = table.value(name); value && !is_overruled(name, *value)) {
            auto line = util::escape_line(*value);
            input += std::string("option ") + name + (line.empty() ? "" : " " + line) + "\n";
        }
    if (table.is_set("test-only")) add_line(input, "test-only");
    return input;
}

// What `hook place` will be told. The script itself is read from Slurm, as Slurm stored it.
std::string place_request(const CommandLine &line, const OptionTable &table) {
    std::string input;
    if (!table.is_set("wrap"))
        for (const auto &argument : line.script_arguments())
            add_line(input, "arg", argument);
    if (const auto names = table.value("export")) add_line(input, "export", *names);
    return input;
}

void apply(const Reply &reply, const OptionTable &table, const Settings &settings, Submission &submission) {
    for (const auto &[name, value] : reply.options) {
        if (table.set(name, value)) continue;
        drop(settings, submission);
        fail("sbatch refuses --" + name + (value.empty() ? "" : "=" + value) + " of the plan");
    }
    table.set("requeue", "");     // a part that gives its GPUs back goes into its queue again
    ::unsetenv(restart_variable); // of the job that sbatch runs in
    for (const auto &[name, value] : reply.environment)
        ::setenv(name.c_str(), value.c_str(), 1);
}

// With --wait the exit hook comes after the job's end, so a child does its work beside the waiting sbatch.
[[noreturn]] void place_beside(const Settings &settings, const Submission &submission, pid_t sbatch) {
    ::setsid(); // Ctrl-C at sbatch is seen by the helper as the end of sbatch
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, STDIN_FILENO);
    ::dup2(null, STDOUT_FILENO);
    for (int fd = STDERR_FILENO + 1; fd < 1024; ++fd)
        ::close(fd); // whoever reads sbatch's output must see its end
    const auto reply = ask_helper(settings, {"place", submission.id, "--while", std::to_string(sbatch)},
                                  submission.placing, child_deadline);
    auto lines = reply ? reply->say : std::vector<std::string>{reply.error().what};
    if (reply && !reply->fail.empty()) lines.push_back(reply->fail);
    for (const auto &line : lines)
        ::dprintf(STDERR_FILENO, "spiderflow: %s\n", line.c_str());
    ::_exit(reply && reply->fail.empty() ? 0 : 1);
}

pid_t start_placing_beside(const Settings &settings, const Submission &submission) {
    const auto sbatch = ::getpid();
    const auto child = ::fork();
    if (child != 0) return child;
    guarded("sbatch --wait", [&] { place_beside(settings, submission, sbatch); });
    ::_exit(1);
}

// The job is over. Slurm's status of a job that was cancelled while it was held is 0, so a refusal is told
// here. A child that still looks for the job (the submission failed) ends with this process.
void end_of_wait(pid_t child) {
    const util::SystemClock clock;
    const auto end = clock.elapsed() + child_grace;
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(child, &status, WNOHANG)) == 0 && clock.elapsed() < end)
        ::usleep(50'000);
    if (ended != child || status == 0) return;
    std::fflush(stdout);
    ::_exit(1);
}

template <class Names>
void forget(const Names &names) {
    for (const auto &name : names)
        ::unsetenv(std::string(name).c_str());
}

// What the tasks of a step have: the rank of the outer job is not the new job's.
void forget_rank() {
    if (std::getenv(own_job) == nullptr) return;
    std::vector<std::string> own;
    for (char **entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with(own_prefix)) own.emplace_back(text.substr(0, text.find('=')));
    }
    forget(own);
    forget(torch_names);
}

} // namespace

void shed_inherited(Submission &submission) {
    const char *job = std::getenv(carrier::job);
    const char *submit = std::getenv(carrier::submit);
    if (job == nullptr) return;
    forget_rank();
    submission.by_command = submit != nullptr && std::string_view(submit) == job;
    if (submission.by_command) { // fresh carriers, but the word may be that of an outer job
        forget(std::array{carrier::submit, carrier::master, carrier::local_job});
    } else {
        forget(carrier::all);
        ::unsetenv(option_variable);
    }
}

void before_submission(const Settings &settings, const Asked &asked, Submission &submission) {
    if (submission.by_command || !asked.on()) return;
    if (is_salloc()) refuse_elsewhere("salloc", "");
    const auto line = own_command_line();
    if (line.heterogeneous() || submission.heterogeneous) {
        drop(settings, submission);
        fail("a heterogeneous job cannot be federated: give one component, the plan sizes each site's part");
    }
    const auto table = option_table();
    auto reply = ask_helper(settings, {"plan"}, plan_request(asked, table), plan_deadline);
    if (!reply) fail(reply.error().what);
    say(*reply);
    if (!reply->fail.empty()) fail(reply->fail);
    submission.id = reply->id;
    submission.test_only = table.is_set("test-only");
    if (submission.id.empty() && !submission.test_only) fail("helper: " + settings.helper + " gave no plan");
    submission.placing = place_request(line, table);
    for (const auto &kept : reply->keep)
        submission.placing += kept + "\n";
    apply(*reply, table, settings, submission);
    if (submission.test_only || !table.is_set("wait")) return;
    submission.child = start_placing_beside(settings, submission);
    if (submission.child < 0) {
        drop(settings, submission);
        fail("no process could be started for --wait");
    }
    submission.id.clear();
}

void after_submission(const Settings &settings, Submission &submission) {
    if (submission.child > 0) end_of_wait(submission.child);
    if (submission.id.empty()) return;
    if (submission.test_only) return drop(settings, submission);
    std::fflush(stdout); // "Submitted batch job N" comes before what follows, and is not lost by _exit()
    const auto reply = ask_helper(settings, {"place", submission.id}, submission.placing, place_deadline);
    submission.id.clear();
    if (reply) say(*reply);
    if (reply && reply->fail.empty()) return;
    slurm_spank_log("spiderflow: %s", (reply ? reply->fail : reply.error().what).c_str());
    ::_exit(1);
}

void refuse_elsewhere(const char *program, const char *where) {
    fail("--spiderflow works with sbatch only: " + std::string(program) + where +
         " starts no federated job; use sbatch --spiderflow=… or " + program + " --spiderflow=off");
}

} // namespace spider::spank
