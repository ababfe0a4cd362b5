// SPDX-License-Identifier: GPL-3.0-or-later
// The words that agents and clients exchange inside a Channel.
//   client                                   agent
//   {"do": "measure", "order", "seconds"}    {"measurement"}: measures itself, towards order.address
//   {"do": "test", "order"}                  {"order", "token"}: what it grants
//   {"do": "echo"}                           {"echo": true}
//   {"do": "phase", "phase": 0}              {"phase": 0}: streams may come
//   {"do": "attach", "token", "back"}        {"attached": true}, then bytes; on a connection of its own
//   {"do": "start"}                          {"started": true}: bytes flow
//   {"do": "finish"}                         {"received": rate, "sent": rate}
// Instead of any answer: {"error", "code"}, a refusal; it ends the connection.
#pragma once

#include "model/json.h"

#include <array>
#include <optional>

namespace spider::probe {

// The phases of a test, in their order; forth is what the client sends.
struct PhaseKind {
    bool forth, back;
};
inline constexpr std::array phase_kinds{PhaseKind{true, false}, PhaseKind{false, true},
                                        PhaseKind{true, true}};

constexpr int echoes = 20;

model::Json refusal(const Error &error);
std::optional<Error> refusal_in(const model::Json &answer);

// What a refusal says while an agent has another test.
Error busy_with_another(const std::string &site);

} // namespace spider::probe
