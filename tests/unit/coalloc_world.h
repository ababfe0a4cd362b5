// SPDX-License-Identifier: GPL-3.0-or-later
// A small world for the model check of lib/coalloc: two federated jobs at up to three sites, and a broker
// that calls the real see(), decide(), apply(), acts() and taken(). A world is plain bytes, its own key, so
// clocks are only young or over: each may run out before any other, which is more than real clocks can do.
#pragma once

#include "coalloc/decide.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace spider::coalloc {

using Byte = std::uint8_t;
constexpr Byte most_jobs = 2, most_sites = 3, most_attempts = 2;

// An enumerator in one byte.
template <class Enum>
struct Small {
    Byte value = 0;
    constexpr Small(Enum from) : value(static_cast<Byte>(from)) {}
    constexpr operator Enum() const { return static_cast<Enum>(value); }
};

// A part at its site.
enum class There : Byte { none, held, pending, never, running, completed, failed, cancelled };
constexpr bool live(There state) { return state >= There::held && state <= There::running; }
enum class Note : Byte { none, go, back }; // the comment, as far as this run of the part obeys it
struct Actual {
    There state = There::none;
    Note note = Note::none;
    Byte ahead = 0;     // starts anew that the broker has not seen
    Byte begins = 0;    // its --begin has not come
    Byte user_held = 0; // its user holds it
    Byte started = 0;   // it has obeyed the word
};

enum class Timer : Byte { off, young, over };
// A part as the broker has seen it: PartRecord without what no decision reads.
struct Seen {
    Byte site = 0;
    Small<PartState> state = PartState::unsubmitted;
    Byte known = 0; // its id
    Byte lingers = 0, released = 0, giving_back = 0, word_given = 0;
    Byte begins = 0, near = 0; // Slurm's reason is BeginTime; its start is expected soon
    Timer idle = Timer::off, unseen = Timer::off;
};

struct Federated {
    Small<State> state = State::placing;
    Byte attempt = 1, size = 0;
    Byte cancelled = 0, user_hold = 0, again = 0;
    Byte paused = 0, waited = 0; // the next turn is not yet due; the next attempt is
    Byte left_out = 0;           // bits: sites
    Byte requeued = 0;           // its site started a part anew
    std::array<Seen, most_sites> parts;
};

enum class Local : Byte { none, waiting, last, running = 8 }; // counted down to `last` as time passes
enum class Broken : Byte { no, crowded, doubled, orphaned, unheard, word_too_early, obeyed_alone };
struct World {
    std::array<Federated, most_jobs> jobs;
    std::array<std::array<std::array<Actual, most_sites>, most_attempts>, most_jobs> there;
    std::array<Byte, most_sites> silent{};
    std::array<Local, most_sites> local{};
    Byte faults = 0; // that may still happen
    Broken broken = Broken::no;
};

struct Rules {
    std::vector<std::vector<Byte>> sites; // of each job, home first
    std::array<Byte, most_sites> capacity{1, 1, 1};
    std::array<bool, most_sites> locals{}; // a job of the site's own users
    std::string may_fail;                  // letters of the faults that may happen; see sites_fail()
    Byte faults = 0;
    OnFailure on_failure = OnFailure::cancel;
    bool from_placing = false; // else every part is there already, held
    bool estimates = false;    // sites may expect a pending part to start soon
    bool begin = false;        // job 1 has --begin
    // Planted bugs
    bool no_wound_wait = false, no_patience = false, no_requeue_seen = false, no_mark = false;
};

struct Step {
    const char *what = "";
    Byte job = 0, part = 0; // or site
};
using Emit = std::function<void(const Step &, const World &)>;

World first_world(const Rules &rules);
void each_step(const Rules &rules, const World &world, const Emit &emit);
void check(const Rules &rules, World &world); // sets `broken`

// A round without faults in which everybody does all that can be done; when nothing can, time passes.
// `first`: the job whose parts the sites start first, or 2: at each site another.
World fair_round(const Rules &rules, const World &world, Byte first);
bool all_ended(const World &world);
bool idles_too_long(const World &world, std::size_t job, std::size_t part); // its patience is over
std::string describe(const World &world);

// The broker
constexpr Seconds model_now = 10000;
Policy policy_of(const Rules &rules);
Job job_of(const Rules &rules, const World &world, std::size_t index);
void look(const Rules &rules, World &world, std::size_t index, std::size_t part, bool near);
void advance(const Rules &rules, World &world, std::size_t index); // one decision
void submit(const Rules &rules, World &world, std::size_t index, std::size_t part, bool answered);
std::vector<Act> acts_of(const Rules &rules, const World &world, std::size_t index);
void perform(const Rules &rules, World &world, std::size_t index, const Act &act, bool answered);
void ask_cancel(const Rules &rules, World &world, std::size_t index);
bool cancel_strays(World &world);

} // namespace spider::coalloc
