// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/states.h"

namespace spider::coalloc {
namespace {

constexpr std::array<std::string_view, 11> state_names{"asked",     "planned",    "placing",  "holding",
                                                       "releasing", "rendezvous", "running",  "ending",
                                                       "done",      "failed",     "cancelled"};
constexpr std::array<std::string_view, 20> event_names{
    "plan_found",   "planned_again",  "no_plan",        "home_submitted", "plan_expired",
    "plan_dropped", "all_held",       "placing_failed", "release_due",    "all_released",
    "all_running",  "patience_ended", "gave_way",       "home_held",      "part_failed",
    "cancel_asked", "all_completed",  "gone_again",     "gone_failed",    "gone_cancelled"};
constexpr std::array<std::string_view, 6> action_names{"none",      "place_parts", "release_parts",
                                                       "give_word", "give_back",   "cancel_parts"};
static_assert(state_names.size() == static_cast<std::size_t>(State::cancelled) + 1);
static_assert(event_names.size() == static_cast<std::size_t>(Event::gone_cancelled) + 1);
static_assert(action_names.size() == static_cast<std::size_t>(Action::cancel_parts) + 1);

} // namespace

std::string_view name(State state) { return state_names[static_cast<std::size_t>(state)]; }
std::string_view name(Event event) { return event_names[static_cast<std::size_t>(event)]; }
std::string_view name(Action action) { return action_names[static_cast<std::size_t>(action)]; }

std::optional<State> state_named(std::string_view text) {
    for (std::size_t i = 0; i < state_names.size(); ++i)
        if (state_names[i] == text) return static_cast<State>(i);
    return std::nullopt;
}

} // namespace spider::coalloc
