// SPDX-License-Identifier: GPL-3.0-or-later
// Programs against brute force, and GLPK's bad habits: it must neither print, nor keep memory, nor end us.
#include "plan/glpk_guard.h"
#include "plan/ilp.h"

#include <glpk.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>
#include <unistd.h>

namespace spider::plan {
namespace {

using ilp::infinity;
using ilp::Outcome;
using ilp::Program;

constexpr Seconds minute = 60;

double sum(const std::vector<ilp::Term> &terms, const std::vector<double> &values) {
    double total = 0;
    for (const auto &[column, coefficient] : terms)
        total += coefficient * values[static_cast<std::size_t>(column)];
    return total;
}

bool holds(const Program &program, const std::vector<double> &values, double slack) {
    return std::all_of(program.rows.begin(), program.rows.end(), [&](const ilp::Row &row) {
        const auto total = sum(row.terms, values);
        return row.lower - slack <= total && total <= row.upper + slack;
    });
}

double objective(const Program &program, const std::vector<double> &values) {
    double total = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
        total += program.columns[i].objective * values[i];
    return total;
}

// All assignments of binaries; infinity: none holds.
double brute_force(const Program &program) {
    double best = infinity;
    std::vector<double> values(program.columns.size());
    for (unsigned bits = 0; bits < 1U << values.size(); ++bits) {
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = (bits >> i & 1U) != 0 ? 1 : 0;
        if (holds(program, values, 0)) best = std::min(best, objective(program, values));
    }
    return best;
}

Program random_program(std::mt19937 &random) {
    const auto number = [&](int least, int most) {
        return std::uniform_int_distribution(least, most)(random);
    };
    Program program;
    program.columns.resize(static_cast<std::size_t>(number(1, 10)));
    for (auto &column : program.columns)
        column.objective = number(-9, 9);
    program.rows.resize(static_cast<std::size_t>(number(0, 5)));
    for (auto &row : program.rows) {
        for (int i = 0; i < static_cast<int>(program.columns.size()); ++i)
            if (number(0, 2) > 0) row.terms.push_back({i, static_cast<double>(number(-7, 9))});
        if (number(0, 3) > 0) row.lower = number(-6, 4);
        if (number(0, 3) > 0) row.upper = std::max(row.lower, static_cast<double>(number(0, 12)));
        if (number(0, 5) == 0 && row.lower > -infinity) row.upper = row.lower;
    }
    return program;
}

// Every row picks exactly half of its weights, rounded down: no branching is any better than another.
Program market_split(int rows, int columns, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Program program{.columns = std::vector<ilp::Column>(static_cast<std::size_t>(columns)), .rows{}};
    for (int i = 0; i < rows; ++i) {
        ilp::Row row;
        double total = 0;
        for (int j = 0; j < columns; ++j) {
            row.terms.push_back({j, static_cast<double>(random() % 100)});
            total += row.terms.back().coefficient;
        }
        row.lower = row.upper = std::floor(total / 2);
        program.rows.push_back(std::move(row));
    }
    return program;
}

// The most valuable of `columns` items within `rows` budgets.
Program knapsacks(int rows, int columns, std::uint64_t seed) {
    auto program = market_split(rows, columns, seed);
    std::mt19937_64 random(seed + 1);
    for (auto &column : program.columns)
        column.objective = -static_cast<double>(50 + random() % 50);
    for (auto &row : program.rows)
        row.lower = -infinity;
    return program;
}

double resident_megabytes() {
    std::ifstream statm("/proc/self/statm");
    double pages = 0, resident = 0;
    statm >> pages >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST(Ilp, RandomBinaryProgramsHaveTheOptimumOfBruteForce) {
    std::mt19937 random(1);
    int infeasible = 0;
    for (int i = 0; i < 2000; ++i) {
        const auto program = random_program(random);
        const auto best = brute_force(program);
        const auto solution = ilp::solve(program, minute);
        infeasible += best == infinity ? 1 : 0;
        ASSERT_EQ(solution.outcome, best == infinity ? Outcome::infeasible : Outcome::optimal)
            << "case " << i;
        if (best == infinity) continue;
        EXPECT_EQ(solution.objective, best) << "case " << i;
        EXPECT_TRUE(holds(program, solution.values, 0)) << "case " << i;
        for (const double value : solution.values)
            EXPECT_TRUE(value == 0 || value == 1) << value;
    }
    EXPECT_GT(infeasible, 100);
    EXPECT_LT(infeasible, 1900);
}

TEST(Ilp, AssignmentsHaveTheOptimumOfAllPermutations) {
    constexpr int size = 6;
    std::mt19937 random(2);
    for (int round = 0; round < 20; ++round) {
        Program program{.columns = std::vector<ilp::Column>(size * size), .rows{}};
        for (auto &column : program.columns)
            column.objective = std::uniform_int_distribution(1, 99)(random);
        program.rows.assign(2 * size, {.lower = 1, .upper = 1, .terms{}});
        for (int i = 0; i < size * size; ++i)
            for (const int row : {i / size, size + i % size})
                program.rows[static_cast<std::size_t>(row)].terms.push_back({i, 1});
        std::vector<std::size_t> order(size);
        std::iota(order.begin(), order.end(), 0U);
        double best = infinity;
        do {
            double cost = 0;
            for (std::size_t i = 0; i < size; ++i)
                cost += program.columns[i * size + order[i]].objective;
            best = std::min(best, cost);
        } while (std::next_permutation(order.begin(), order.end()));
        EXPECT_EQ(ilp::solve(program, minute).objective, best);
    }
}

TEST(Ilp, ContinuousColumnsTakeFractionsBesideBinaries) {
    // The greater of two loads: pieces 3, 4 and 5 to two bins; 5 + 1.5 of a divisible piece of 2 against 7.
    Program program{.columns = {{.objective = 1, .upper = infinity, .is_binary = false},
                                {},
                                {},
                                {},
                                {.upper = 2, .is_binary = false}},
                    .rows{}};
    program.rows = {{.upper = 0, .terms = {{0, -1}, {1, 3}, {2, 4}, {3, 5}, {4, 1}}},
                    {.upper = -14, .terms = {{0, -1}, {1, -3}, {2, -4}, {3, -5}, {4, -1}}}};
    const auto solution = ilp::solve(program, minute);
    ASSERT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_NEAR(solution.objective, 7, 1e-9);

    program = {.columns = {{.objective = 1, .lower = -5, .upper = 5, .is_binary = false}},
               .rows = {{.lower = 1, .terms = {{0, 2}}}}};
    EXPECT_NEAR(ilp::solve(program, minute).objective, 0.5, 1e-9);
}

TEST(Ilp, EmptyProgramsAndEmptyRowsAreDecided) {
    EXPECT_EQ(ilp::solve({}, minute).outcome, Outcome::optimal);
    EXPECT_EQ(ilp::solve({.columns{}, .rows = {{.lower = -1, .upper = 1, .terms{}}}}, minute).outcome,
              Outcome::optimal);
    for (const int columns : {0, 1}) {
        const Program program{.columns = std::vector<ilp::Column>(static_cast<std::size_t>(columns)),
                              .rows = {{.lower = 1, .upper = 1, .terms{}}}};
        EXPECT_EQ(ilp::solve(program, minute).outcome, Outcome::infeasible);
    }
    const auto fixed = ilp::solve({.columns = {{.objective = 3, .lower = 1}, {.upper = 0}}, .rows{}}, minute);
    EXPECT_EQ(fixed.values, (std::vector<double>{1, 0}));
}

TEST(Ilp, AnObjectiveWithoutABoundIsAnErrorThatSaysSo) {
    const ilp::Column falling{.objective = -1, .upper = infinity, .is_binary = false};
    for (const auto &program :
         {Program{.columns = {falling}, .rows{}},
          Program{.columns = {falling, {}}, .rows = {{.lower = 0, .terms = {{0, 1}, {1, 1}}}}}}) {
        const auto solution = ilp::solve(program, minute);
        EXPECT_EQ(solution.outcome, Outcome::error);
        EXPECT_EQ(solution.trouble, "the objective has no lower bound");
        EXPECT_TRUE(solution.values.empty());
    }
}

TEST(Ilp, SenselessProgramsAreRefusedWithThePlace) {
    const auto trouble = [](const Program &program) {
        const auto solution = ilp::solve(program, minute);
        EXPECT_EQ(solution.outcome, Outcome::error);
        return solution.trouble;
    };
    const double nan = std::nan("");
    const auto column = [&](ilp::Column bad) { return trouble({.columns = {{}, bad}, .rows{}}); };
    EXPECT_EQ(column({.objective = nan}), "column 1: the objective is not a finite number");
    EXPECT_EQ(column({.objective = -infinity}), "column 1: the objective is not a finite number");
    EXPECT_EQ(column({.upper = 2}), "column 1: a binary has a bound other than 0 and 1");
    EXPECT_EQ(column({.lower = nan}), "column 1: a binary has a bound other than 0 and 1");
    EXPECT_EQ(column({.lower = 1, .upper = 0}), "column 1: the lower bound is above the upper one");
    EXPECT_EQ(column({.lower = nan, .is_binary = false}), "column 1: a bound is not a number");
    EXPECT_EQ(column({.lower = infinity, .upper = infinity, .is_binary = false}),
              "column 1: a bound is infinite on the wrong side");
    const auto row = [&](ilp::Row bad) {
        return trouble({.columns = {{}, {}}, .rows = {{}, std::move(bad)}});
    };
    EXPECT_EQ(row({.terms = {{0, nan}}}), "row 1: a coefficient is not a finite number");
    EXPECT_EQ(row({.terms = {{0, infinity}}}), "row 1: a coefficient is not a finite number");
    EXPECT_EQ(row({.terms = {{2, 1}}}), "row 1: names a column that is not there");
    EXPECT_EQ(row({.terms = {{-1, 1}}}), "row 1: names a column that is not there");
    EXPECT_EQ(row({.terms = {{0, 1}, {1, 1}, {0, 1}}}), "row 1: names a column twice");
    EXPECT_EQ(row({.lower = 2, .upper = 1, .terms{}}), "row 1: the lower bound is above the upper one");
    EXPECT_EQ(row({.upper = nan, .terms{}}), "row 1: a bound is not a number");
}

TEST(Ilp, TheDeadlineStopsAHardProgramWithOrWithoutAnAnswer) {
    const util::SystemClock clock;
    const auto start = clock.elapsed();
    const auto unsolved = ilp::solve(market_split(5, 45, 1), 0.2);
    const auto between = clock.elapsed();
    EXPECT_EQ(unsolved.outcome, Outcome::out_of_time);
    EXPECT_TRUE(unsolved.values.empty());
    EXPECT_LT(between - start, 5);

    const auto program = knapsacks(8, 120, 1);
    const auto unproven = ilp::solve(program, 0.5);
    EXPECT_LT(clock.elapsed() - between, 10);
    EXPECT_EQ(unproven.outcome, Outcome::feasible);
    EXPECT_TRUE(holds(program, unproven.values, 0));
    EXPECT_DOUBLE_EQ(unproven.objective, objective(program, unproven.values));

    for (const Seconds none : {0.0, -1.0, std::nan("")})
        EXPECT_EQ(ilp::solve(program, none).outcome, Outcome::out_of_time);
}

TEST(Ilp, AComplaintOfGlpkIsATextAndTheNextProgramIsSolved) {
    for (int i = 0; i < 100; ++i) {
        const auto complaint = guarded_glpk(
            [](void *) {
                auto *problem = glp_create_prob();
                glp_add_cols(problem, 1000);
                glp_set_obj_coef(problem, 7777, 1);
            },
            nullptr);
        ASSERT_EQ(complaint, "glp_set_obj_coef: j = 7777; column number out of range");
        ASSERT_EQ(ilp::solve({.columns = {{.objective = -1}}, .rows{}}, minute).objective, -1);
    }
    EXPECT_EQ(guarded_glpk([](void *) { glp_delete_prob(glp_create_prob()); }, nullptr), "");
}

TEST(Ilp, NothingIsPrinted) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::mt19937 random(3);
    for (int i = 0; i < 20; ++i)
        (void)ilp::solve(random_program(random), minute);
    (void)ilp::solve(market_split(5, 45, 1), 0.05);
    (void)ilp::solve({.columns = {{.objective = -1, .upper = infinity, .is_binary = false}}, .rows{}},
                     minute);
    (void)guarded_glpk([](void *) { glp_add_rows(glp_create_prob(), -1); }, nullptr);
    const auto out = testing::internal::GetCapturedStdout();
    const auto err = testing::internal::GetCapturedStderr();
    EXPECT_EQ(out, "");
    EXPECT_EQ(err, "");
}

TEST(Ilp, AThousandProgramsLeaveNoMemoryBehind) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer keeps freed memory, and looks for leaks itself";
#endif
    std::mt19937 random(4);
    const auto some = [&](int count) {
        for (int i = 0; i < count; ++i)
            (void)ilp::solve(random_program(random), minute);
    };
    some(100);
    const auto before = resident_megabytes();
    some(1000);
    const auto after = resident_megabytes();
    std::printf("resident: %.1f MB before, %.1f MB after 1,000 programs\n", before, after);
    EXPECT_LT(after - before, 16);
}

TEST(Ilp, ThreadsSolveAtTheSameTime) {
    std::array<int, 4> right{};
    std::vector<std::thread> threads;
    for (auto &count : right)
        threads.emplace_back([&count] {
            std::mt19937 random(5);
            for (int i = 0; i < 50; ++i) {
                const auto program = random_program(random);
                const auto best = brute_force(program);
                const auto solution = ilp::solve(program, minute);
                count +=
                    best == infinity ? solution.outcome == Outcome::infeasible : solution.objective == best;
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (const int count : right)
        EXPECT_EQ(count, 50);
}

} // namespace
} // namespace spider::plan
