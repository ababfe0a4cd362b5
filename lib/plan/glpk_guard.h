// SPDX-License-Identifier: GPL-3.0-or-later
// GLPK answers a broken call, and a lack of memory, with a print and abort(). Behind this guard it is a text.
// Each thread has a GLPK of its own (Debian's is built so; another one may need one thread at a time).
#pragma once

#include <string>

namespace spider::plan {

// Runs act(with) and returns what GLPK complained about, or "". GLPK prints nothing, and all that it holds
// for this thread is freed at the end. A complaint leaves `act` by longjmp: no local of it may have a
// destructor.
std::string guarded_glpk(void (*act)(void *), void *with);

} // namespace spider::plan
