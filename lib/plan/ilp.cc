// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/ilp.h"

#include "plan/glpk_guard.h"

#include <algorithm>
#include <cmath>
#include <glpk.h>

namespace spider::plan::ilp {

namespace {

std::string place(const char *kind, std::size_t index, const char *what) {
    return std::string(kind) + " " + std::to_string(index) + ": " + what;
}

// "" or why there is no number between the two.
const char *trouble_with_bounds(double lower, double upper) {
    if (std::isnan(lower) || std::isnan(upper)) return "a bound is not a number";
    if (lower == infinity || upper == -infinity) return "a bound is infinite on the wrong side";
    return lower > upper ? "the lower bound is above the upper one" : "";
}

const char *trouble_with(const Column &column) {
    const auto is_bit = [](double value) { return value == 0 || value == 1; };
    if (!std::isfinite(column.objective)) return "the objective is not a finite number";
    if (column.is_binary && !(is_bit(column.lower) && is_bit(column.upper)))
        return "a binary has a bound other than 0 and 1";
    return trouble_with_bounds(column.lower, column.upper);
}

// `seen`: by column, the last row that named it, counted from 1.
const char *trouble_with(const Row &row, std::size_t number, std::vector<std::size_t> &seen) {
    for (const auto &[column, coefficient] : row.terms) {
        if (column < 0 || static_cast<std::size_t>(column) >= seen.size())
            return "names a column that is not there";
        if (!std::isfinite(coefficient)) return "a coefficient is not a finite number";
        auto &last = seen[static_cast<std::size_t>(column)];
        if (last == number) return "names a column twice";
        last = number;
    }
    return trouble_with_bounds(row.lower, row.upper);
}

std::string trouble_with(const Program &program) {
    for (std::size_t i = 0; i < program.columns.size(); ++i)
        if (const std::string what = trouble_with(program.columns[i]); !what.empty())
            return place("column", i, what.c_str());
    std::vector<std::size_t> seen(program.columns.size(), 0);
    for (std::size_t i = 0; i < program.rows.size(); ++i)
        if (const std::string what = trouble_with(program.rows[i], i + 1, seen); !what.empty())
            return place("row", i, what.c_str());
    return {};
}

// GLPK 5.0's presolver breaks rows with two different bounds (3 in 1,000 random binary programs): two rows
// each.
Program one_sided(const Program &program) {
    Program result{.columns = program.columns, .rows{}};
    for (const auto &row : program.rows) {
        const bool both = std::isfinite(row.lower) && std::isfinite(row.upper) && row.lower < row.upper;
        if (both) result.rows.push_back({.upper = row.upper, .terms = row.terms});
        result.rows.push_back({row.lower, both ? infinity : row.upper, row.terms});
    }
    return result;
}

// Whether the values hold, with GLPK's tolerance and some more.
bool holds(const Row &row, const std::vector<double> &values) {
    double sum = 0, size = 1;
    for (const auto &[column, coefficient] : row.terms) {
        const double part = coefficient * values[static_cast<std::size_t>(column)];
        sum += part, size += std::abs(part);
    }
    return row.lower <= sum + 1e-5 * size && sum - 1e-5 * size <= row.upper;
}

// The sparse matrix as GLPK reads it: counted from 1.
struct Matrix {
    std::vector<int> rows{0}, columns{0};
    std::vector<double> values{0};
};

Matrix matrix_of(const Program &program) {
    Matrix matrix;
    int row = 0;
    for (const auto &[lower, upper, terms] : program.rows) {
        ++row;
        for (const auto &[column, coefficient] : terms) {
            if (coefficient == 0) continue;
            matrix.rows.push_back(row);
            matrix.columns.push_back(column + 1);
            matrix.values.push_back(coefficient);
        }
    }
    return matrix;
}

// What goes into the guarded call and comes out of it. The functions from here to solve_guarded() own
// nothing: GLPK may leave them by longjmp.
struct Job {
    const Program &program;
    const Matrix &matrix;
    const util::Clock &clock;
    Seconds end;
    double *values;
    Outcome outcome = Outcome::error;
    const char *trouble = "GLPK gave up";
};

int kind_of_bounds(double lower, double upper) {
    if (lower == upper) return GLP_FX;
    if (std::isinf(lower)) return std::isinf(upper) ? GLP_FR : GLP_UP;
    return std::isinf(upper) ? GLP_LO : GLP_DB;
}

glp_prob *load(const Job &job) {
    auto *problem = glp_create_prob();
    const auto &[columns, rows] = job.program;
    if (!columns.empty()) glp_add_cols(problem, static_cast<int>(columns.size()));
    if (!rows.empty()) glp_add_rows(problem, static_cast<int>(rows.size()));
    for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
        const auto &column = columns[static_cast<std::size_t>(i)];
        glp_set_col_kind(problem, i + 1, column.is_binary ? GLP_IV : GLP_CV);
        glp_set_col_bnds(problem, i + 1, kind_of_bounds(column.lower, column.upper), column.lower,
                         column.upper);
        glp_set_obj_coef(problem, i + 1, column.objective);
    }
    for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
        const auto &row = rows[static_cast<std::size_t>(i)];
        glp_set_row_bnds(problem, i + 1, kind_of_bounds(row.lower, row.upper), row.lower, row.upper);
    }
    const auto &[row_of, column_of, values] = job.matrix;
    glp_load_matrix(problem, static_cast<int>(values.size()) - 1, row_of.data(), column_of.data(),
                    values.data());
    return problem;
}

// GLPK's limits are whole milliseconds.
int milliseconds(Seconds seconds) { return static_cast<int>(std::clamp(std::ceil(seconds * 1e3), 1.0, 1e9)); }

void judge(Job &job, int status) {
    switch (status) {
    case GLP_OPT:
        job.outcome = Outcome::optimal;
        break;
    case GLP_FEAS:
        job.outcome = Outcome::feasible;
        break;
    case GLP_NOFEAS:
        job.outcome = Outcome::infeasible;
        break;
    case GLP_UNBND:
        job.trouble = "the objective has no lower bound";
        break;
    default:
        break;
    }
}

Seconds left(const Job &job) { return job.end - job.clock.elapsed(); }

void relax(Job &job, glp_prob *problem) {
    glp_smcp how;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.tm_lim = milliseconds(left(job));
    const int code = glp_simplex(problem, &how);
    if (code != 0 && code != GLP_ETMLIM) return;
    judge(job, glp_get_status(problem));
    if (code == GLP_ETMLIM && job.outcome != Outcome::feasible) job.outcome = Outcome::out_of_time;
    for (int i = 0; i < glp_get_num_cols(problem); ++i)
        job.values[i] = glp_get_col_prim(problem, i + 1);
}

// GLPK gives the limit to its own first relaxation and then to the search, so both may take twice as long.
void branch(Job &job, glp_prob *problem) {
    glp_iocp how;
    glp_init_iocp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.tm_lim = milliseconds(left(job));
    how.presolve = GLP_ON;
    const int code = glp_intopt(problem, &how);
    job.outcome = Outcome::error;
    if (code == GLP_ENOPFS) job.outcome = Outcome::infeasible;
    if (code == GLP_ETMLIM) job.outcome = Outcome::out_of_time;
    if (code == 0 || code == GLP_ETMLIM) judge(job, glp_mip_status(problem));
    for (int i = 0; i < glp_get_num_cols(problem); ++i)
        job.values[i] = glp_mip_col_val(problem, i + 1);
}

void solve_guarded(void *with) {
    auto &job = *static_cast<Job *>(with);
    auto *problem = load(job);
    relax(job, problem);
    if (glp_get_num_int(problem) == 0) return;
    if (job.outcome == Outcome::feasible) job.outcome = Outcome::out_of_time; // of the relaxation only
    if (job.outcome != Outcome::optimal) return;
    if (left(job) > 0)
        branch(job, problem);
    else
        job.outcome = Outcome::out_of_time;
}

} // namespace

Solution solve(const Program &program, Seconds deadline) {
    if (auto trouble = trouble_with(program); !trouble.empty())
        return {.outcome = Outcome::error, .trouble = std::move(trouble)};
    if (!(deadline > 0)) return {};
    const auto loaded = one_sided(program);
    const auto matrix = matrix_of(loaded);
    Solution solution{.values = std::vector<double>(program.columns.size())};
    const util::SystemClock clock;
    Job job{loaded, matrix, clock, clock.elapsed() + deadline, solution.values.data()};
    if (const auto complaint = guarded_glpk(solve_guarded, &job); !complaint.empty())
        return {.outcome = Outcome::error, .trouble = "GLPK: " + complaint};

    solution.outcome = job.outcome;
    if (job.outcome == Outcome::error) solution.trouble = job.trouble;
    if (job.outcome != Outcome::optimal && job.outcome != Outcome::feasible) solution.values.clear();
    for (std::size_t i = 0; i < solution.values.size(); ++i) {
        if (program.columns[i].is_binary) solution.values[i] = std::round(solution.values[i]);
        solution.objective += program.columns[i].objective * solution.values[i];
    }
    for (std::size_t i = 0; i < program.rows.size() && !solution.values.empty(); ++i)
        if (!holds(program.rows[i], solution.values))
            return {.outcome = Outcome::error, .trouble = place("row", i, "GLPK's answer breaks it")};
    return solution;
}

} // namespace spider::plan::ilp
