// SPDX-License-Identifier: GPL-3.0-or-later
// Mixed 0-1 programs as values, solved by GLPK. Pure but for the clock; any thread (see plan/glpk_guard.h).
// The process never ends here, nothing is printed, nothing is kept between two calls.
#pragma once

#include "util/clock.h"

#include <limits>
#include <string>
#include <vector>

namespace spider::plan::ilp {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Column {
    double objective = 0;
    double lower = 0, upper = 1; // of a binary: 0 or 1 each
    bool is_binary = true;
};

struct Term {
    int column = 0; // index into Program::columns, at most once in a row
    double coefficient = 0;
};

struct Row { // lower <= sum of terms <= upper
    double lower = -infinity, upper = infinity;
    std::vector<Term> terms;
};

// The sum of objective * value is minimised.
struct Program {
    std::vector<Column> columns;
    std::vector<Row> rows;
};

enum class Outcome {
    optimal,     // proven
    feasible,    // the deadline came before the proof
    infeasible,  // proven
    out_of_time, // nothing is known
    error,       // the program is senseless or unbounded, or GLPK gave up: see `trouble`
};

struct Solution {
    Outcome outcome = Outcome::out_of_time;
    double objective = 0;
    std::vector<double> values; // by column, with optimal and feasible; binaries are exactly 0 or 1
    std::string trouble;
};

// The deadline stops the simplex method between two steps and the search between two nodes. GLPK may take it
// twice.
Solution solve(const Program &program, Seconds deadline);

} // namespace spider::plan::ilp
