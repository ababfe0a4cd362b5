// SPDX-License-Identifier: GPL-3.0-or-later
// One part of a federated job as the broker knows it, and the table of what its end means for the others.
// Plain values.
#pragma once

#include "util/clock.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace spider::coalloc {

// What a site says of a part.
enum class PartState {
    unsubmitted,
    submitting, // the request is under way, or its answer was lost: it may be at the site
    held,
    pending,
    running, // holds its nodes
    // The ends:
    completed,
    failed,      // its script, or Slurm for it
    unprepared,  // its site lacks the plugin or could not unpack what travels
    cancelled,   // by its user or an admin, while nobody asked for it here
    timed_out,   // --time or --deadline
    node_failed, // a compute node, and the site's Slurm says so
    preempted,   // by a job of higher priority
    requeued,    // its site started it anew after the word: its ranks are gone
    never,       // no node there can ever run it
    gone,        // unknown to its site: how it ended cannot be found out
    left_behind, // its site does not answer, and the job goes on without it
};
constexpr bool over(PartState state) { return state >= PartState::completed; }

// What the end of a part means while the job is to run. The others are cancelled in every case; a site that
// does not answer is no end: parts there count as what they were.
struct EndRule {
    PartState end;
    bool wanted;    // somebody wanted it: the job is cancelled, not failed
    bool again;     // another attempt may end better (on_failure=retry, replan)
    bool elsewhere; // only without this site (on_failure=replan)
    std::string_view words;
};
inline constexpr std::array end_rules{
    EndRule{PartState::failed, false, true, false, "failed"},
    EndRule{PartState::unprepared, false, false, true, "was not prepared"},
    EndRule{PartState::cancelled, true, false, false, "was cancelled"},
    EndRule{PartState::timed_out, false, false, false, "reached its time limit"},
    EndRule{PartState::node_failed, false, true, false, "lost a node"},
    EndRule{PartState::preempted, false, true, false, "was preempted"},
    EndRule{PartState::requeued, false, true, false, "was requeued by its site"},
    EndRule{PartState::never, false, false, true, "can never start"},
    EndRule{PartState::gone, false, true, true, "is no longer known there"},
    EndRule{PartState::left_behind, false, true, true, "was left behind"},
};

// What Slurm shows of a job just requeued is not yet what it will be: held comes a little later. And slurmd
// takes what starts within the second of its end for what was killed.
constexpr Seconds requeue_settles = 5;

struct PartRecord {
    std::string site;
    std::int64_t job = 0; // Slurm's id at that site; 0 = none yet
    std::string user;     // the owner's name at that site
    int gpus = 0;
    PartState state = PartState::unsubmitted;
    bool lingers = false;    // over for us, but still to be cancelled at its site
    std::string slurm_state; // Slurm's own word, with its reason
    std::string waits_for;   // Slurm's reason alone, while pending: "Resources"
    int exit_status = 0;
    std::string hosts;          // host list, once it runs
    std::string directory;      // where Slurm starts it
    std::string output;         // where its output goes, a pattern of sbatch(1)
    std::string error;          // the same; empty: there, too
    int restarts = 0;           // Slurm's count of its starts anew
    bool released = false;      // the broker took the hold off
    bool giving_back = false;   // it is to give its GPUs back, and has not yet
    bool word_given = false;    // the comment with the word was accepted
    Seconds released_at = 0;    // when the broker last took the hold off
    Seconds back_at = 0;        // when it was last seen waiting again after a start; 0: never started
    Seconds idle_since = 0;     // running without the word since then; 0: not
    Seconds expected_start = 0; // the site's estimate on this host's clock; 0: none
    Seconds clock_ahead = 0;    // of the site's clock before this host's
    Seconds unseen_since = 0;   // its site has not answered since; 0: it does
    bool operator==(const PartRecord &) const = default;
};

// One look at a part.
struct Sight {
    PartState state = PartState::pending;
    std::string slurm_state; // "PENDING (Resources)"
    std::string reason;      // "Resources"
    int exit_status = 0;
    std::string hosts;
    int restarts = 0;
    bool completing = false; // over or requeued: its nodes are not yet free
    Seconds start = 0;       // on the site's clock: the estimate while pending; 0: none
};

const EndRule &rule_of(PartState end); // `end` is one of end_rules
std::string_view name(PartState state);

} // namespace spider::coalloc
