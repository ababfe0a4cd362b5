// SPDX-License-Identifier: GPL-3.0-or-later
// What a site's slurmrestd says, freed of its OpenAPI version: plain values. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spider::slurm {

struct GpuCount {
    std::string type; // "h100"; empty when the site names no type
    int count = 0;
    int used = 0;
    bool operator==(const GpuCount &) const = default;
};

struct NodeView {
    std::string name;
    std::string address;
    std::string hostname;
    std::string state; // base state, upper case: IDLE, MIXED, ALLOCATED, DOWN, ERROR, FUTURE, UNKNOWN
    std::vector<std::string> flags;         // upper case: DRAIN, NOT_RESPONDING, CLOUD, …
    std::vector<std::string> unknown_flags; // those among `flags` that this release does not know
    bool usable = false;                    // in service: jobs run on it now or will
    bool free_now = false;                  // usable, not fully allocated, not planned for another job
    bool bootable = false;                  // powered down, but Slurm would start it for a job
    int cpus = 0;
    int used_cpus = 0;
    std::int64_t memory_mb = 0;
    std::int64_t used_memory_mb = 0;
    std::vector<GpuCount> gpus; // one per type
    std::vector<std::string> partitions;
    std::vector<std::string> features; // active ones
    bool operator==(const NodeView &) const = default;

    [[nodiscard]] int gpu_count() const;
    [[nodiscard]] int free_gpus() const; // 0 unless free_now
};

// pending .. completing are alive, the others are ends. `other` (suspended, stopped, resizing, unheard of) is
// alive.
enum class JobState {
    pending,
    running,    // or configuring: it holds its nodes
    completing, // over, its nodes are not yet free
    other,
    completed,
    failed, // or out of memory, boot failure, revoked
    cancelled,
    timeout, // or deadline
    node_fail,
    preempted,
};
std::string_view name(JobState state); // "PENDING"
[[nodiscard]] constexpr bool is_over(JobState state) { return state >= JobState::completed; }

struct JobView {
    std::int64_t id = 0;
    std::string user;
    std::string name;
    std::string comment;
    std::string partition;
    JobState state = JobState::other;
    std::string state_text; // as the site said it: "OUT_OF_MEMORY"
    std::string reason;     // "" for None
    bool held = false;      // pending and it stays so until it is released
    std::string nodes;      // host list, "" while pending
    std::string batch_host;
    std::string dependency;         // as the site writes it, "afterok:12(unfulfilled)"; "" when none is left
    int time_limit_minutes = 0;     // 0: none, or unknown
    int exit_code = 0;              // of the batch script
    int exit_signal = 0;            // that ended it
    std::int64_t submit_time = 0;   // seconds since the epoch; 0: unknown
    std::int64_t eligible_time = 0; // before it, the job may not start
    std::int64_t start_time = 0;    // pending: the site's estimate
    std::int64_t end_time = 0;
    int restarts = 0;
    bool operator==(const JobView &) const = default;
};

// One part to submit. Empty text and nothing: not sent, the site's default holds.
struct Submission {
    std::string script;
    std::string name;
    std::string account;
    std::string partition;
    std::string qos;
    std::string comment;
    std::string directory;
    std::string output; // file patterns of sbatch(1)
    std::string error;
    std::optional<int> umask;
    std::vector<std::pair<std::string, std::string>> environment;
    int nodes = 1;
    int tasks = 1;
    int tasks_per_node = 1;
    int gpus_per_node = 0;
    std::string gpu_type; // of gpus_per_node; empty: any
    std::optional<int> cpus_per_task;
    std::optional<std::int64_t> memory_per_node_mb; // at most one of the two; 0 = all of the node
    std::optional<std::int64_t> memory_per_cpu_mb;
    std::optional<std::int64_t> time_limit_minutes; // util::unlimited_minutes: no limit
    std::string signal;                             // "[R][B:]SIG[@seconds]" of sbatch(1)
    std::string exclusive;                          // "" shared, "true" whole nodes, "user", "mcs"
    std::string constraints;                        // node features
    std::optional<int> nice;
    bool hold = true;
    bool requeue = true; // by the site, and by the job itself
};

struct Submitted {
    std::int64_t job = 0;
    std::string trouble; // the site took the job but says that it will not run: cancel it; its own words
};

// already_gone: unknown to the site, or finished before. 22.05 says `asked` of finished jobs, too.
enum class Cancelled { asked, already_gone };

} // namespace spider::slurm
