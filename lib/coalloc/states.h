// SPDX-License-Identifier: GPL-3.0-or-later
// The life of a federated job as one table: (state, event) -> (state, action). Pure; the broker performs the
// actions.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace spider::coalloc {

enum class State {
    asked,      // to be planned: of a second attempt, after a pause
    planned,    // a plan exists; sbatch is about to submit the home part
    placing,    // the parts are being submitted, held
    holding,    // every part is at its site; none may start, or what started gives its GPUs back
    releasing,  // the holds are being taken off, the longest expected wait first
    rendezvous, // free to start; waiting until every part runs
    running,    // every part runs and gets the word
    ending,     // parts are being cancelled
    done,
    failed,
    cancelled,
};

enum class Event {
    plan_found,     // for sbatch, which submits the home part
    planned_again,  // for a further attempt, in which the broker submits every part
    no_plan,        // none for a further attempt
    home_submitted, // sbatch's helper brought the home part and the script
    plan_expired,   // it never came
    plan_dropped,   // it said that it will not come
    all_held,
    placing_failed, // a site refused, or the broker was restarted meanwhile
    release_due,    // a part may be released now
    all_released,
    all_running,
    patience_ended, // a part has run long enough without the others
    gave_way,       // an older federated job waits for what this one holds idle
    home_held,      // the home part is not to start: the others must not, either
    part_failed,    // a part ended badly, or is not known any more
    cancel_asked,   // spiderflow cancel, or scancel of any part
    all_completed,
    gone_again,     // no part is left; there is another attempt
    gone_failed,    // no part is left, after a failure
    gone_cancelled, // no part is left, after a cancel
};

enum class Action { none, place_parts, release_parts, give_word, give_back, cancel_parts };

struct Transition {
    State from;
    Event event;
    State to;
    Action action = Action::none;
};

constexpr std::array transitions{
    Transition{State::asked, Event::plan_found, State::planned},
    Transition{State::asked, Event::planned_again, State::placing, Action::place_parts},
    Transition{State::asked, Event::no_plan, State::failed},
    Transition{State::asked, Event::cancel_asked, State::cancelled},

    Transition{State::planned, Event::home_submitted, State::placing, Action::place_parts},
    Transition{State::planned, Event::plan_expired, State::failed},
    Transition{State::planned, Event::plan_dropped, State::cancelled},
    Transition{State::planned, Event::cancel_asked, State::cancelled},

    Transition{State::placing, Event::all_held, State::holding},
    Transition{State::placing, Event::placing_failed, State::ending, Action::cancel_parts},
    Transition{State::placing, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::placing, Event::part_failed, State::ending, Action::cancel_parts},

    Transition{State::holding, Event::release_due, State::releasing, Action::release_parts},
    Transition{State::holding, Event::patience_ended, State::holding, Action::give_back},
    Transition{State::holding, Event::home_held, State::holding, Action::give_back},
    Transition{State::holding, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::holding, Event::part_failed, State::ending, Action::cancel_parts},

    Transition{State::releasing, Event::all_released, State::rendezvous},
    Transition{State::releasing, Event::patience_ended, State::holding, Action::give_back},
    Transition{State::releasing, Event::gave_way, State::holding, Action::give_back},
    Transition{State::releasing, Event::home_held, State::holding, Action::give_back},
    Transition{State::releasing, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::releasing, Event::part_failed, State::ending, Action::cancel_parts},

    Transition{State::rendezvous, Event::all_running, State::running, Action::give_word},
    Transition{State::rendezvous, Event::patience_ended, State::holding, Action::give_back},
    Transition{State::rendezvous, Event::gave_way, State::holding, Action::give_back},
    Transition{State::rendezvous, Event::home_held, State::holding, Action::give_back},
    Transition{State::rendezvous, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::rendezvous, Event::part_failed, State::ending, Action::cancel_parts},

    Transition{State::running, Event::all_completed, State::done},
    Transition{State::running, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::running, Event::part_failed, State::ending, Action::cancel_parts},

    Transition{State::ending, Event::cancel_asked, State::ending, Action::cancel_parts},
    Transition{State::ending, Event::gone_again, State::asked},
    Transition{State::ending, Event::gone_failed, State::failed},
    Transition{State::ending, Event::gone_cancelled, State::cancelled},
};

// Nothing: the event means nothing in this state and is ignored.
constexpr std::optional<Transition> next(State from, Event event) {
    for (const auto &row : transitions)
        if (row.from == from && row.event == event) return row;
    return std::nullopt;
}

constexpr bool final(State state) {
    return state == State::done || state == State::failed || state == State::cancelled;
}

std::string_view name(State state);
std::string_view name(Event event);
std::string_view name(Action action);
std::optional<State> state_named(std::string_view text);

} // namespace spider::coalloc
