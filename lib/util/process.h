// SPDX-License-Identifier: GPL-3.0-or-later
// Runs a program to its end with a deadline: no shell, no thread, every descriptor close-on-exec.
#pragma once

#include "util/clock.h"
#include "util/result.h"

#include <string>
#include <vector>

namespace spider::util {

struct Finished {
    int status = 0; // exit status; 128 + N when signal N ended it
    std::string out;
    std::string err;
};

struct Command {
    std::vector<std::string> argv; // argv[0] is a path; PATH is not searched unless `search_path`
    std::string input;             // given on standard input, which is then closed
    Seconds deadline = 10;         // then SIGKILL to the child's process group and Errc::timeout
    bool search_path = false;
    bool keep_stderr = false; // leave standard error to the child instead of reading it into `err`
};

// Errc::system when it cannot be started, Errc::timeout at the deadline; any exit status is a Finished.
// SIGPIPE of the caller is not touched: a child that does not read its input is no error.
Result<Finished> run(const Command &command);

} // namespace spider::util
