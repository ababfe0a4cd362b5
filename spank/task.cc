// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/task.h"

#include "spank/carriers.h"
#include "spank/check.h"
#include "spank/files.h"
#include "spank/interface.h"
#include "spank/rank.h"
#include "spank/reach.h"
#include "spank/word.h"
#include "util/clock.h"
#include "util/hostlist.h"
#include "util/process.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <unistd.h>

namespace spider::spank {
namespace {

constexpr std::uint32_t batch_step = 0xfffffffb; // slurm.h: SLURM_BATCH_SCRIPT
constexpr std::uint32_t first_own_step =
    0xfffffff0; // and above: Slurm's own steps (batch, extern, interactive)
constexpr Seconds look_deadline = 10;
constexpr Seconds reach_deadline = 5; // a lost SYN is sent again after 1 and 3 s
constexpr Seconds grace = 60; // the broker gives the job back after its patience; this is for a dead broker
constexpr std::size_t longest_variable = 8u << 20;

std::optional<std::string> variable(spank_t spank, const char *name) {
    std::string value(4096, '\0');
    for (;;) {
        const auto got = ::spank_getenv(spank, name, value.data(), static_cast<int>(value.size()));
        if (got == ESPANK_SUCCESS) return std::string(value.c_str());
        if (got != ESPANK_NOSPACE || value.size() >= longest_variable) return std::nullopt;
        value.resize(value.size() * 4);
    }
}

Lookup lookup(spank_t spank) {
    return [spank](const char *name) { return variable(spank, name); };
}

std::uint32_t item(spank_t spank, spank_item_t which) {
    std::uint32_t value = 0;
    return ::spank_get_item(spank, which, &value) == ESPANK_SUCCESS ? value : 0;
}

[[noreturn]] void fail(const std::string &job, const std::string &why) {
    ::dprintf(STDERR_FILENO, "spiderflow: job %s: %s\n", job.c_str(), why.c_str());
    ::_exit(1);
}

std::string own_program() {
    std::array<char, 4096> path{};
    const auto length = ::readlink("/proc/self/exe", path.data(), path.size());
    return {path.data(), length < 0 ? 0 : static_cast<std::size_t>(length)};
}

std::string find_command(const std::string &name, const std::string &bindir) {
    const auto paths = command_paths(name, bindir, own_program());
    for (const auto &path : paths)
        if (::access(path.c_str(), X_OK) == 0) return path;
    return paths.front();
}

// The first line of squeue; a look that fails is a look that saw nothing, and `trouble` says why.
std::string look_at(const std::string &squeue, std::uint32_t here, std::string &trouble) {
    const auto seen = util::run(
        {.argv = {squeue, "-h", "-j", std::to_string(here), "-o", "%T|%k"}, .deadline = look_deadline});
    trouble = !seen ? seen.error().what : seen->status == 0 ? "" : std::string(util::trim(seen->err));
    return seen && seen->status == 0 ? seen->out : std::string();
}

void pause_a_second() {
    const timespec second{1, 0};
    ::nanosleep(&second, nullptr);
}

// Back into the queue, held, with the same id, script and environment. Slurm ends this process for it,
// perhaps before scontrol has answered: its SIGTERM is ignored here, and by scontrol, which inherits that.
[[noreturn]] void give_back(const Settings &settings, const std::string &job, std::uint32_t here) {
    ::signal(SIGTERM, SIG_IGN);
    const auto scontrol = find_command("scontrol", settings.bindir);
    const auto done =
        util::run({.argv = {scontrol, "requeuehold", std::to_string(here)}, .deadline = look_deadline});
    // It may exit with 0 although it was refused: what it printed decides.
    std::string trouble = !done ? done.error().what : std::string(util::trim(done->err));
    if (trouble.empty() && done->status != 0)
        trouble = scontrol + " ended with status " + std::to_string(done->status);
    if (!trouble.empty()) fail(job, "could not give its GPUs back: " + trouble);
    fail(job, "gives its GPUs back and waits for the other sites");
}

// Returns the word. Ends the batch script when the job ends, gives its GPUs back, or no word comes.
std::string wait_for_word(const Settings &settings, const Self &self, std::uint32_t here, Seconds patience) {
    const util::SystemClock clock;
    const auto squeue = find_command("squeue", settings.bindir);
    const auto end = clock.elapsed() + patience;
    std::string trouble;
    for (;;) {
        const auto seen = judge(look_at(squeue, here, trouble), self);
        switch (seen.look) {
        case Look::go:
            return seen.detail;
        case Look::back:
            give_back(settings, self.job, here);
        case Look::again:
            fail(self.job, "its site started this part again; the others do not wait for it");
        case Look::old:
            fail(self.job, "this is attempt " + std::to_string(self.attempt) + ", attempt " + seen.detail +
                               " has taken its place");
        case Look::ended:
            fail(self.job, "ended while it waited for the other sites: " + seen.detail);
        case Look::stranger:
            fail(self.job, "the comment of Slurm job " + std::to_string(here) + " is not of this job: '" +
                               seen.detail + "'; was it changed?");
        case Look::wait:
            break;
        }
        if (clock.elapsed() >= end)
            fail(self.job, "no word from the broker within " + std::to_string(static_cast<int>(patience)) +
                               " s" + (trouble.empty() ? "" : "; " + trouble));
        pause_a_second();
    }
}

// Slurm 22.05 fills the variable, but not the item.
int own_run(spank_t spank) {
    const auto told = util::to_int(variable(spank, restart_variable).value_or("0")).value_or(0);
    return static_cast<int>(std::max<std::int64_t>(item(spank, S_SLURM_RESTART_COUNT), told));
}

// Slurm counts each giving back, though nothing was trained, and nothing in a further attempt, which is a new
// Slurm job, though something was. A script that asks whether to go on from a checkpoint means the attempts.
void count_attempts(spank_t spank, int attempt) {
    if (attempt > 1)
        ::spank_setenv(spank, restart_variable, std::to_string(attempt - 1).c_str(), 1);
    else
        ::spank_unsetenv(spank, restart_variable);
}

// What was seen goes into the job's comment, where the broker reads it; then the batch step ends.
[[noreturn]] void end_for_links(const Settings &settings, const std::string &job, std::uint32_t here,
                                const CheckedLinks &checked) {
    std::string trouble;
    const auto line = look_at(find_command("squeue", settings.bindir), here, trouble);
    const auto bar = line.find('|');
    if (bar != std::string::npos)
        if (const auto comment = with_seen(line.substr(bar + 1), checked.seen); !comment.empty())
            (void)util::run({.argv = {find_command("scontrol", settings.bindir), "update",
                                      "JobId=" + std::to_string(here), "Comment=" + comment},
                             .deadline = look_deadline});
    fail(job, checked.say.back());
}

void look_at_links(spank_t spank, const Settings &settings, const Carriers &carriers, const std::string &word,
                   std::uint32_t here) {
    const auto check = variable(spank, carrier::check);
    if (!check) return;
    ::spank_unsetenv(spank, carrier::check);
    const auto checked = check_links(settings, carriers.site, word, *check);
    const auto spoken = checked.say.size() - (checked.stop ? 1 : 0);
    for (std::size_t i = 0; i < spoken; ++i)
        ::dprintf(STDERR_FILENO, "spiderflow: job %s: %s\n", carriers.job.c_str(), checked.say[i].c_str());
    if (checked.stop) end_for_links(settings, carriers.job, here, checked);
}

void before_batch_script(spank_t spank, const Settings &settings, const std::string &job) {
    const auto here = item(spank, S_JOB_ID);
    const auto carriers = read_carriers(lookup(spank));
    if (!carriers) fail(job, carriers.error().what);
    const auto patience = read_patience(lookup(spank)) + grace;
    const Self self{job, carriers->attempt, own_run(spank)};
    const auto word = wait_for_word(settings, self, here, patience);
    const auto master = parse_master(word);
    if (!master) fail(job, master.error().what);
    look_at_links(spank, settings, *carriers, word, here);
    ::spank_setenv(spank, carrier::master, (master->address + "/" + std::to_string(master->port)).c_str(), 1);
    ::spank_setenv(spank, carrier::local_job, std::to_string(here).c_str(), 1);
    // sbatch keeps the count of the user's own --ntasks-per-node, and srun would leave nodes out for it.
    for (const char *name : {"SLURM_NTASKS", "SLURM_NPROCS"})
        ::spank_setenv(spank, name, std::to_string(carriers->tasks()).c_str(), 1);
    count_attempts(spank, carriers->attempt);
    ::spank_unsetenv(spank,
                     carrier::submit); // or a nested sbatch would take itself for that of `spiderflow submit`
}

// Carriers of another job that came along in the environment.
void forget_carriers(spank_t spank) {
    for (const char *name : carrier::all)
        ::spank_unsetenv(spank, name);
    for (int number = 1;; ++number) {
        const auto name = carrier::file + std::to_string(number);
        if (!variable(spank, name.c_str())) break;
        ::spank_unsetenv(spank, name.c_str());
    }
    ::spank_unsetenv(spank, option_variable);
}

Result<Place> place_of(spank_t spank, const std::string &master) {
    Place place;
    for (const char *name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
        const auto list = variable(spank, name);
        if (!list) continue;
        auto nodes = util::expand_hostlist(*list);
        if (!nodes) return std::move(nodes).error().within(name);
        place.nodes = *std::move(nodes);
        break;
    }
    const auto node = variable(spank, "SLURMD_NODENAME");
    if (place.nodes.empty()) return Error{Errc::not_found, "SLURM_JOB_NODELIST is missing"};
    if (!node) return Error{Errc::not_found, "SLURMD_NODENAME is missing"};
    place.node = *node;
    place.local_id = static_cast<int>(item(spank, S_TASK_ID));
    place.local_tasks = static_cast<int>(item(spank, S_JOB_LOCAL_TASK_COUNT));
    place.step_tasks = static_cast<int>(item(spank, S_JOB_TOTAL_TASK_COUNT));
    place.interface = interface_towards(master);
    place.single_gpu = place.local_tasks > 1 && visible_devices(lookup(spank)) == 1;
    return place;
}

// What the user set himself stays, and he is told once. In a step that a task of a federated step started, it
// is the outer rank and no wish of the user.
void give(spank_t spank, const Environment &environment, bool tell) {
    const bool inherited = variable(spank, own_job).has_value();
    std::string kept;
    for (const auto &[name, value] : environment) {
        const auto own = variable(spank, name.c_str());
        if (!own || inherited || name.starts_with(own_prefix)) {
            ::spank_setenv(spank, name.c_str(), value.c_str(), 1);
        } else if (name.ends_with("RANK")) { // one value for all tasks, though it may be right in this one
            kept += " " + name + "=" + *own + " (plan: one for each task)";
        } else if (*own != value) {
            kept += " " + name + "=" + *own + " (plan: " + value + ")";
        }
    }
    if (tell && !kept.empty())
        ::dprintf(STDERR_FILENO, "spiderflow: warning: kept as you set it:%s\n", kept.c_str());
}

// The arbitrary distribution was the plugin's: a command that a task starts would want a host list for it.
void forget_distribution(spank_t spank) {
    if (variable(spank, "SLURM_DISTRIBUTION") == "arbitrary" && !variable(spank, "SLURM_HOSTFILE"))
        ::spank_unsetenv(spank, "SLURM_DISTRIBUTION");
}

// Slurm's SLURM_PROCID is the true rank in the step; S_TASK_GLOBAL_ID counts anew in each het component.
bool is_first_task(spank_t spank) { return variable(spank, "SLURM_PROCID") == "0"; }

// One task speaks for all that see the same trouble; the others end in silence.
[[noreturn]] void fail_step(bool speak, const std::string &job, const std::string &why) {
    if (speak) fail(job, why);
    ::_exit(1);
}

std::string words(const Carriers &carriers, const Place &place) {
    return "node " + place.node + " (site " + carriers.site + ")";
}

// The way to the master, once from each node of another site; its port, from the master itself.
Result<void> check_network(const Carriers &carriers, const Master &master, const Place &place,
                           const std::string &address) {
    if (is_master(carriers, place)) {
        if (is_free(master.port)) return {};
        return Error{Errc::refused,
                     words(carriers, place) + ": MASTER_PORT " + std::to_string(master.port) +
                         " is taken by another process; submit again, the next job gets another "
                         "port"};
    }
    if (place.local_id != 0 || carriers.site == carriers.master_site) return {};
    if (auto way = reaches(address, master.port, reach_deadline); !way)
        return Error{Errc::unreachable, words(carriers, place) + " does not reach the master " + address +
                                            " port " + std::to_string(master.port) + " (site " +
                                            carriers.master_site + "): " + way.error().what +
                                            "; the compute nodes of both sites must reach each other"};
    return {};
}

void warn_of_single_gpu(const Carriers &carriers, const Place &place) {
    if (!place.single_gpu || carriers.single_gpu_view || carriers.per_node) return;
    ::dprintf(STDERR_FILENO,
              "spiderflow: warning: each task sees one GPU only: a trainer that takes GPU LOCAL_RANK "
              "will not find it; single_gpu_view=yes in SPEC sets LOCAL_RANK=0\n");
}

void before_rank(spank_t spank, const std::string &job) {
    const auto word = variable(spank, carrier::master);
    const bool first = is_first_task(spank);
    if (!word)
        fail_step(first, job,
                  std::string(carrier::master) + " is missing: the batch step got no word from the broker; "
                                                 "is the plugin installed on its node?");
    const auto carriers = read_carriers(lookup(spank));
    if (!carriers) fail_step(first, job, carriers.error().what);
    const auto master = parse_master(*word);
    if (!master) fail_step(first, job, master.error().what);
    const auto address = numeric_address(master->address);
    const auto place = place_of(spank, address ? *address : master->address);
    if (!place) fail_step(first, job, place.error().what);
    if (const auto wrong = mismatch(*carriers, *place))
        fail_step(wrong->whole ? first : place->local_id == 0, job,
                  wrong->what + "; for a step that is no part of the training: srun --spiderflow=off");
    if (!address)
        fail_step(place->local_id == 0, job,
                  words(*carriers, *place) + " does not know the master's host " + master->address +
                      " (site " + carriers->master_site + "): " + address.error().what +
                      "; that site needs `addresses` in spiderflow.conf");
    if (const auto way = check_network(*carriers, *master, *place, *address); !way)
        fail(job, way.error().what);
    auto environment = rank_environment(*carriers, *master, *place);
    const auto trainer = trainer_environment(*carriers);
    if (!trainer) fail(job, trainer.error().what);
    environment.insert(environment.end(), trainer->begin(), trainer->end());
    give(spank, environment, first);
    if (first) warn_of_single_gpu(*carriers, *place);
    forget_distribution(spank);
}

} // namespace

void before_task(spank_t spank, const Settings &settings, const Asked &asked) {
    const auto step = item(spank, S_JOB_STEPID);
    if (step >= first_own_step && step != batch_step) return;
    if (step != batch_step && asked.off()) return;
    const auto job = variable(spank, carrier::job);
    if (!job) return;
    const auto member = variable(spank, carrier::local_job);
    const bool stranger = member && *member != std::to_string(item(spank, S_JOB_ID));
    if (step == batch_step)
        stranger ? forget_carriers(spank) : before_batch_script(spank, settings, *job);
    else if (!stranger)
        before_rank(spank, *job);
}

void stop_task(spank_t spank) noexcept {
    std::array<char, 8> any{};
    if (::spank_getenv(spank, carrier::job, any.data(), static_cast<int>(any.size())) == ESPANK_ENV_NOEXIST)
        return;
    ::dprintf(STDERR_FILENO, "spiderflow: the task's rank could not be set\n");
    ::_exit(1);
}

} // namespace spider::spank
