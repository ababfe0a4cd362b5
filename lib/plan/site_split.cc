// SPDX-License-Identifier: GPL-3.0-or-later
// The program in full: one binary for (stage, length, class, option), one of them per stage, lengths that sum
// to the layers, no class beyond its slots, and tau >= each stage's time, minimised. Solved as a few small
// ones: tau is bisected over the times that occur, and for a given tau what fits is all that counts. So the
// option is the fastest one, and adjacent lengths that fit are one column, a run.
#include "plan/site_split.h"

#include <algorithm>
#include <cstdint>

namespace spider::plan {

namespace {

using ilp::infinity;

struct Choice {
    Seconds seconds = infinity;
    int option = 0;
};

// For every (stage, class, length) the fastest option; infinity for what the best split can do without.
class Menu {
  public:
    Menu(const SplitProblem &problem, Seconds incumbent);

    [[nodiscard]] const Choice &at(int stage, int node_class, int length) const {
        return choices_[one_option_.index(stage, node_class, 0, length)];
    }
    [[nodiscard]] const std::vector<Seconds> &times() const { return times_; } // distinct, ascending

  private:
    void drop_dominated_classes(const SplitProblem &problem);
    SplitProblem one_option_; // for its index() only
    std::vector<Choice> choices_;
    std::vector<Seconds> times_;
};

Menu::Menu(const SplitProblem &problem, Seconds incumbent)
    : one_option_{problem.stages, problem.layers, problem.slots, 1, {}} {
    const int longest = problem.layers - problem.stages + 1;
    choices_.resize(problem.seconds.size() / static_cast<std::size_t>(problem.options));
    for (int s = 0; s < problem.stages; ++s)
        for (int c = 0; c < problem.classes(); ++c)
            for (int length = 1; length <= longest && problem.slots[static_cast<std::size_t>(c)] > 0;
                 ++length) {
                auto &best = choices_[one_option_.index(s, c, 0, length)];
                for (int o = 0; o < problem.options; ++o)
                    if (const auto seconds = problem.at(s, c, o, length);
                        seconds < best.seconds && seconds <= incumbent)
                        best = {seconds, o};
            }
    drop_dominated_classes(problem);
    for (const auto &choice : choices_)
        if (choice.seconds < infinity) times_.push_back(choice.seconds);
    std::sort(times_.begin(), times_.end());
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
}

// A class with slots for all stages is always there: others matter only where they are faster.
void Menu::drop_dominated_classes(const SplitProblem &problem) {
    for (int c = 0; c < problem.classes(); ++c) {
        if (problem.slots[static_cast<std::size_t>(c)] < problem.stages) continue;
        for (int s = 0; s < problem.stages; ++s)
            for (int other = 0; other < problem.classes(); ++other)
                for (int length = 1; length <= problem.layers && other != c; ++length) {
                    auto &choice = choices_[one_option_.index(s, other, 0, length)];
                    if (choice.seconds >= at(s, c, length).seconds) choice.seconds = infinity;
                }
    }
}

// Lengths [least, most] of a stage on a class, all of which fit within tau.
struct Run {
    int stage, node_class, least, most;
};

std::vector<Run> runs_within(const SplitProblem &problem, const Menu &menu, Seconds tau) {
    std::vector<Run> runs;
    for (int s = 0; s < problem.stages; ++s)
        for (int c = 0; c < problem.classes(); ++c)
            for (int length = 1; length <= problem.layers; ++length) {
                if (menu.at(s, c, length).seconds > tau) continue;
                if (length > 1 && menu.at(s, c, length - 1).seconds <= tau)
                    ++runs.back().most;
                else
                    runs.push_back({s, c, length, length});
            }
    return runs;
}

// For each stage the last one before it with the same times, or -1.
std::vector<int> twins_of(const SplitProblem &problem) {
    std::vector<int> twins(static_cast<std::size_t>(problem.stages), -1);
    const auto each = static_cast<std::ptrdiff_t>(problem.seconds.size()) / problem.stages;
    const auto times = [&](int stage) { return problem.seconds.begin() + stage * each; };
    for (int s = 1; s < problem.stages; ++s)
        for (int t = s - 1; t >= 0 && twins[static_cast<std::size_t>(s)] < 0; --t)
            if (std::equal(times(s), times(s + 1), times(t))) twins[static_cast<std::size_t>(s)] = t;
    return twins;
}

class Search {
  public:
    Search(const SplitProblem &problem, Seconds incumbent, Seconds deadline)
        : problem_(problem), menu_(problem, incumbent), twins_(twins_of(problem)),
          end_(clock_.elapsed() + deadline) {}

    SplitResult run();

  private:
    enum class Answer { yes, no, unknown };
    enum class Kind { relaxed, whole };
    Answer fits(Seconds tau, Kind kind);
    [[nodiscard]] bool hopeless(const std::vector<Run> &runs) const;
    [[nodiscard]] ilp::Program program(const std::vector<Run> &runs, Kind kind) const;
    void order_twins(const std::vector<Run> &runs, ilp::Program &program) const;
    bool take(const std::vector<Run> &runs, const std::vector<double> &taken);

    const SplitProblem &problem_;
    Menu menu_;
    std::vector<int> twins_;
    util::SystemClock clock_;
    Seconds end_;
    SplitResult result_;
};

// Whether some stage fits nowhere, or the lengths are too short or too long, classes left aside.
bool Search::hopeless(const std::vector<Run> &runs) const {
    std::vector<int> least(twins_.size(), problem_.layers + 1), most(twins_.size(), 0);
    for (const auto &run : runs) {
        const auto stage = static_cast<std::size_t>(run.stage);
        least[stage] = std::min(least[stage], run.least), most[stage] = std::max(most[stage], run.most);
    }
    std::int64_t shortest = 0, longest = 0;
    for (std::size_t i = 0; i < least.size(); ++i) {
        if (most[i] == 0) return true;
        shortest += least[i], longest += most[i];
    }
    return shortest > problem_.layers || longest < problem_.layers;
}

ilp::Program Search::program(const std::vector<Run> &runs, Kind kind) const {
    const auto stages = twins_.size(), classes = problem_.slots.size();
    ilp::Program program{.columns = std::vector<ilp::Column>(runs.size()), .rows{}};
    auto &rows = program.rows;
    rows.assign(stages, {.lower = 1, .upper = 1, .terms{}});
    for (const int slots : problem_.slots)
        rows.push_back({.upper = static_cast<double>(slots), .terms{}});
    rows.push_back({.lower = static_cast<double>(problem_.layers), .terms{}});
    rows.push_back({.upper = static_cast<double>(problem_.layers), .terms{}});
    for (int i = 0; i < static_cast<int>(runs.size()); ++i) {
        const auto &run = runs[static_cast<std::size_t>(i)];
        program.columns[static_cast<std::size_t>(i)].is_binary = kind == Kind::whole;
        rows[static_cast<std::size_t>(run.stage)].terms.push_back({i, 1});
        rows[stages + static_cast<std::size_t>(run.node_class)].terms.push_back({i, 1});
        rows[stages + classes].terms.push_back({i, static_cast<double>(run.most)});
        rows[stages + classes + 1].terms.push_back({i, static_cast<double>(run.least)});
    }
    if (kind == Kind::whole) order_twins(runs, program);
    return program;
}

// Stages with the same times could trade places: the later one takes the same run or a later one.
void Search::order_twins(const std::vector<Run> &runs, ilp::Program &program) const {
    std::vector<std::vector<ilp::Term>> ranks(twins_.size());
    for (int i = 0; i < static_cast<int>(runs.size()); ++i) {
        auto &rank = ranks[static_cast<std::size_t>(runs[static_cast<std::size_t>(i)].stage)];
        rank.push_back({i, static_cast<double>(rank.size() + 1)});
    }
    for (std::size_t s = 0; s < twins_.size(); ++s) {
        if (twins_[s] < 0) continue;
        ilp::Row row{.lower = 0, .terms = ranks[s]};
        for (const auto &[column, rank] : ranks[static_cast<std::size_t>(twins_[s])])
            row.terms.push_back({column, -rank});
        program.rows.push_back(std::move(row));
    }
}

// Lengths within the runs: layer by layer, where the stage stays fastest.
bool Search::take(const std::vector<Run> &runs, const std::vector<double> &taken) {
    std::vector<Run> chosen;
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (taken[i] == 1) chosen.push_back(runs[i]);
    Split split;
    int left = problem_.layers;
    for (const auto &run : chosen)
        split.lengths.push_back(run.least), split.classes.push_back(run.node_class), left -= run.least;
    for (; left > 0; --left) {
        std::size_t best = chosen.size();
        Seconds least = infinity;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            if (split.lengths[i] == chosen[i].most) continue;
            const auto seconds =
                menu_.at(chosen[i].stage, chosen[i].node_class, split.lengths[i] + 1).seconds;
            if (seconds < least) least = seconds, best = i;
        }
        if (best == chosen.size()) return false;
        ++split.lengths[best];
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto &choice = menu_.at(chosen[i].stage, chosen[i].node_class, split.lengths[i]);
        split.options.push_back(choice.option);
        split.slowest = std::max(split.slowest, choice.seconds);
    }
    if (left < 0 || chosen.size() != twins_.size()) return false;
    result_.split = std::move(split);
    return true;
}

Search::Answer Search::fits(Seconds tau, Kind kind) {
    const auto runs = runs_within(problem_, menu_, tau);
    if (hopeless(runs)) return Answer::no;
    ++result_.programs;
    const auto solution = ilp::solve(program(runs, kind), end_ - clock_.elapsed());
    result_.outcome = solution.outcome, result_.trouble = solution.trouble;
    if (solution.outcome == ilp::Outcome::infeasible) return Answer::no;
    if (solution.values.empty()) return Answer::unknown;
    if (kind == Kind::relaxed || take(runs, solution.values)) return Answer::yes;
    result_.outcome = ilp::Outcome::error, result_.trouble = "GLPK's answer does not add up";
    return Answer::unknown;
}

SplitResult Search::run() {
    const auto &times = menu_.times();
    // First the relaxation's bound: below `low` nothing fits.
    std::size_t low = 0, high = times.size();
    while (low < high) {
        const auto middle = low + (high - low) / 2;
        const auto answer = fits(times[middle], Kind::relaxed);
        if (answer == Answer::unknown) return result_;
        answer == Answer::yes ? high = middle : low = middle + 1;
    }
    // The optimum mostly is that bound, else it is near: upwards in growing steps, then back by halves.
    high = times.size();
    for (std::size_t step = 0; low < high; step = 2 * step + 1) {
        const auto next = result_.split ? low + (high - low) / 2 : std::min(low + step, high - 1);
        const auto answer = fits(times[next], Kind::whole);
        if (answer == Answer::unknown) {
            if (result_.split) result_.outcome = ilp::Outcome::feasible;
            return result_;
        }
        if (answer == Answer::no)
            low = next + 1;
        else
            high = static_cast<std::size_t>(
                std::lower_bound(times.begin(), times.end(), result_.split->slowest) - times.begin());
    }
    result_.outcome = result_.split ? ilp::Outcome::optimal : ilp::Outcome::infeasible;
    return result_;
}

} // namespace

std::string trouble_with(const SplitProblem &problem) {
    if (problem.stages < 1 || problem.layers < 1 || problem.options < 1)
        return "a split needs at least one stage, one layer and one option";
    if (std::any_of(problem.slots.begin(), problem.slots.end(), [](int slots) { return slots < 0; }))
        return "a class has a negative number of slots";
    const auto expected = problem.slots.size() * static_cast<std::size_t>(problem.stages) *
                          static_cast<std::size_t>(problem.options) *
                          static_cast<std::size_t>(problem.layers);
    if (problem.seconds.size() != expected)
        return "a split needs " + std::to_string(expected) + " times, not " +
               std::to_string(problem.seconds.size());
    if (!std::all_of(problem.seconds.begin(), problem.seconds.end(), [](Seconds time) { return time >= 0; }))
        return "a stage's time is negative or not a number";
    return {};
}

SplitResult split_ilp(const SplitProblem &problem, Seconds incumbent, Seconds deadline) {
    if (auto trouble = trouble_with(problem); !trouble.empty())
        return {.outcome = ilp::Outcome::error, .split{}, .trouble = std::move(trouble)};
    if (problem.layers < problem.stages) return {.outcome = ilp::Outcome::infeasible, .split{}, .trouble{}};
    return Search(problem, incumbent, deadline).run();
}

} // namespace spider::plan
