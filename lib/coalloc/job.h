// SPDX-License-Identifier: GPL-3.0-or-later
// A federated job as the broker knows it, and its form in the journal. Plain values.
#pragma once

#include "coalloc/part.h"
#include "coalloc/states.h"
#include "model/json.h"
#include "model/plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace spider::coalloc {

struct HistoryLine {
    Seconds at = 0;
    State state = State::asked;
    std::string why;
    bool operator==(const HistoryLine &) const = default;
};
constexpr std::size_t longest_history = 100; // the first ones and the latest are kept

struct Job {
    std::string id;            // "<home>-<sequence>"
    std::int64_t sequence = 0; // older is smaller
    std::string user;          // name on the broker's host, proved by the socket
    std::uint32_t uid = 0;
    std::string name;
    State state = State::asked;
    std::string reason;     // one sentence: what the last step was for, or why it ended
    Seconds submitted = 0;  // since the epoch
    Seconds entered = 0;    // when `state` began
    bool cancelled = false; // ending because someone wanted it, not because something failed

    // What the user asked
    std::string user_comment;
    std::map<std::string, std::string> options; // of sbatch
    std::string directory;
    JobSpec spec;
    bool home_first = false; // --hold, --begin or --dependency: no part starts before the home part
    bool user_hold = false;  // --hold, or a later scontrol hold of the home part

    Plan plan;
    int attempt = 1;
    std::vector<PartRecord> parts;     // of this attempt, as plan.parts, the home part first
    std::vector<std::string> left_out; // sites that a further attempt does without
    bool again = false;                // ending, and then there is another attempt
    std::string word;                  // "<address>/<port>" once all parts run

    int turns = 0;               // how often it gave GPUs back
    Seconds not_before = 0;      // the next turn: nothing is released on an estimate until then
    double idle_gpu_seconds = 0; // at the rendezvous, of parts that are through with it
    std::vector<HistoryLine> history;
    bool operator==(const Job &) const = default;
};

// GPU-seconds at the rendezvous until `now`, with the parts that are still there.
double idle_gpu_seconds(const Job &job, Seconds now);

Json to_json(const Job &job); // the journal's form
Result<Job> job_from_json(const Json &json);

} // namespace spider::coalloc
