// SPDX-License-Identifier: GPL-3.0-or-later
// A federated job as the broker knows it, and what should happen to it next. Values and pure functions; no
// I/O.
#pragma once

#include "coalloc/states.h"
#include "model/json.h"
#include "model/plan.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spider::coalloc {

// What a site says of a part. `gone`: ended, and how is not known. `unknown`: the site has not answered
// since.
enum class PartState { unsubmitted, unknown, held, pending, running, completed, failed, cancelled, gone };

struct PartRecord {
    std::string site;
    std::int64_t job = 0; // Slurm's id at that site; 0 = none yet
    std::string user;     // the owner's name at that site
    PartState state = PartState::unsubmitted;
    std::string slurm_state; // Slurm's own word, with its reason
    int exit_status = 0;
    std::string hosts;       // host list, once it runs
    std::string directory;   // where Slurm starts it
    std::string output;      // where its output goes, a pattern of sbatch(1)
    std::string error;       // the same; empty: there, too
    bool word_given = false; // the comment with the word was accepted
    bool operator==(const PartRecord &) const = default;
};

struct HistoryLine {
    Seconds at = 0;
    State state = State::asked;
    std::string why;
    bool operator==(const HistoryLine &) const = default;
};

struct Job {
    std::string id;            // "<home>-<sequence>"
    std::int64_t sequence = 0; // older is smaller
    std::string user;          // name on the broker's host, proved by the socket
    std::uint32_t uid = 0;
    std::string name;
    int attempt = 1;
    State state = State::asked;
    bool cancelled = false; // ending because someone wanted it, not because something failed
    std::string reason;     // one sentence: why it waits, or why it ended
    Seconds submitted = 0;  // since the epoch
    Seconds entered = 0;    // when `state` began
    std::string user_comment;
    std::map<std::string, std::string> options; // what the user asked of sbatch
    std::string directory;
    Plan plan;
    std::string word;              // "<address>/<port>" once all parts run
    std::vector<PartRecord> parts; // as plan.parts, the home part first
    std::vector<HistoryLine> history;
    bool operator==(const Job &) const = default;
};

struct Policy {
    Seconds plan_ttl = 20;  // planned, and sbatch did not come back
    Seconds patience = 300; // from the release until every part runs
};

struct Decision {
    Event event;
    std::string why;
};

// What the parts' states and the clock say should happen; nothing = wait. `now` in seconds since the epoch.
std::optional<Decision> decide(const Job &job, const Policy &policy, Seconds now);

bool over(PartState state); // it does not and will not run
std::string_view name(PartState state);

Json to_json(const Job &job); // the journal's form
Result<Job> job_from_json(const Json &json);

} // namespace spider::coalloc
