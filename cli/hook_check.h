// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow hook check`: the conversation; what is done is in cli/link_checker.h.
#pragma once

namespace spider::cli {

int check_hook(); // lines on standard input and output; gives the exit status

} // namespace spider::cli
