// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/explain.h"

#include "plan/link_words.h"
#include "plan/words.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>

namespace spider::plan {

namespace {

constexpr double rounding = 1e-6;
constexpr std::size_t most_stages = 24; // in lists

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// More digits than in tables: these numbers are added up by hand.
std::string exact(Seconds seconds) { return util::number(seconds, 6) + " s"; }

std::string batches(int number) {
    return std::to_string(number) + (number == 1 ? " micro-batch" : " micro-batches");
}

std::string at(const Plan &plan, const Seats &seats, int stage, int dp) {
    const auto &one = plan.stages[index(stage)];
    return "stage " + std::to_string(stage) + " (layers " + std::to_string(one.first_layer) + "-" +
           std::to_string(one.last_layer) + ", at " + seats[index(stage)].at(dp) + ")";
}

std::string heading(const Plan &plan, const Course &course) {
    auto text = shape_words(plan) + ": " + exact(plan.iteration.seconds) + " for an iteration; " +
                count(plan.dp, "pipeline") + " of " + batches(plan.micro_batches) + ".\n";
    if (!plan.reason.empty()) text += "Why: " + plan.reason + ".\n";
    if (plan.dp > 1)
        text += "Pipeline " + std::to_string(course.slowest) + " ends last; what follows is about it.\n";
    if (plan.sends == Sends::blocking && plan.pp > 1)
        text += "Sends block: a stage is busy until its message has arrived, and its times below\ninclude "
                "that.\n";
    return text;
}

// The passage that costs most, and how its cost comes about.
std::string link_words(const Plan &plan, const Seats &seats, const Course &course) {
    if (plan.pp < 2) return {};
    const auto pipeline = pipeline_of(plan, course.slowest);
    std::size_t worst = 0;
    for (std::size_t i = 1; i < pipeline.boundaries.size(); ++i)
        if (pipeline.boundaries[i].both() > pipeline.boundaries[worst].both()) worst = i;
    const auto &link = pipeline.boundaries[worst];
    const auto stage = static_cast<int>(worst);
    const int more = course.depths[worst] - course.depths[worst + 1];
    const auto wait = pipeline.stages[worst].both() + pipeline.stages[worst + 1].both() + link.both();
    auto text = "The dearest passage is from " + at(plan, seats, stage, course.slowest) + "\nto " +
                at(plan, seats, stage + 1, course.slowest) + ":\n" + "  forward   " + exact(link.latency) +
                " latency + " + exact(link.occupancy) + " occupancy = " + exact(link.forward()) + "\n" +
                "  backward  " + exact(link.back_latency) + " latency + " + exact(link.back_occupancy) +
                " occupancy = " + exact(link.backward()) + "\n";
    if (plan.sends == Sends::blocking) return text;
    return text + "  Stage " + std::to_string(stage) + " has " + batches(more) +
           " more in flight than stage " + std::to_string(stage + 1) + ";\n  there and back takes " +
           exact(wait) + ": " + exact(wait / (more + 1)) + " for each of " + std::to_string(more + 1) + ".\n";
}

std::string sum_of(const std::vector<Seconds> &parts) {
    std::vector<std::string> words;
    for (const auto part : parts)
        words.push_back(util::number(part, 6));
    return util::join(words, " + ");
}

// The cycle's own numbers in the formula.
std::string round_trip_words(const Pipeline &pipeline, const Course &course, const Period &tau) {
    std::vector<Seconds> stages, links;
    for (auto i = index(tau.from); i <= index(tau.to); ++i) {
        stages.push_back(pipeline.stages[i].both());
        if (i < index(tau.to)) links.push_back(pipeline.boundaries[i].both());
    }
    const auto from = std::to_string(tau.from), to = std::to_string(tau.to);
    auto text = "the round trip between stages " + from + " and " + to + ":\n  (t_" + from + " + ... + t_" +
                to + " + links there and back) / (k_" + from + " - k_" + to + " + 1)\n";
    if (stages.size() <= most_stages)
        text += "  = (" + sum_of(stages) + " + " + sum_of(links) + ") / (" +
                std::to_string(course.depths[index(tau.from)]) + " - " +
                std::to_string(course.depths[index(tau.to)]) + " + 1)\n";
    return text + "  = " + exact(tau.seconds) + "\n";
}

std::string period_words(const Plan &plan, const Seats &seats, const Course &course) {
    const auto &pipeline = course.pipelines[index(course.slowest)];
    const auto tau = period(pipeline, course.depths, plan.micro_batches), least = least_period(pipeline);
    const auto slowest =
        std::max_element(pipeline.stages.begin(), pipeline.stages.end(),
                         [](const StageTime &a, const StageTime &b) { return a.both() < b.both(); });
    const auto stage = static_cast<int>(slowest - pipeline.stages.begin());
    auto text = "The slowest is " + at(plan, seats, stage, course.slowest) +
                ":\n  t = " + exact(slowest->forward) + " forward + " + exact(slowest->backward) +
                " backward = " + exact(slowest->both()) + "\n" + link_words(plan, seats, course) +
                "\nIn the long run a micro-batch leaves every tau seconds. Here tau is\n";
    if (tau.kind == Period::Kind::stage)
        text += "the slowest stage's t = " + exact(tau.seconds) + "; no link holds it up.\n";
    else if (tau.kind == Period::Kind::link)
        text += "the time that one message keeps the link between stages " + std::to_string(tau.from) +
                " and " + std::to_string(tau.to) + " busy = " + exact(tau.seconds) + ".\n";
    else
        text += round_trip_words(pipeline, course, tau) + "With enough micro-batches in flight it would be " +
                exact(least.seconds) + ".\n";
    const auto pass = one_pass(pipeline);
    return text + "One micro-batch alone takes " + exact(pass) + "; " + std::to_string(plan.micro_batches) +
           " take about\n  " + exact(pass) + " + " + std::to_string(plan.micro_batches - 1) +
           " x tau = " + exact(pipeline_seconds(pipeline, tau, plan.micro_batches)) +
           "\nand, followed one by one, " + exact(course.pipeline) + ".\n";
}

std::string reduce_words(const Plan &plan, const Course &course) {
    if (std::none_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage &stage) { return stage.gradient > 0; }))
        return "Nothing is reduced between pipelines.\n";
    std::string text =
        "A stage begins its all-reduce after its own last backward, so late stages have\nslack";
    text += plan.dp > 1 ? "; these ends are the latest of all pipelines.\n" : ".\n";
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto end = course.ends[i], all = plan.stages[i].gradient;
        const bool closing = i == index(course.closing);
        if (i >= most_stages && !closing) continue;
        text += "  stage " + std::to_string(i) + "  " + exact(end) + " + " + exact(all) + " = " +
                exact(end + all) + (closing ? ", the last" : ", slack " + exact(course.reduced - end - all)) +
                "\n";
    }
    if (plan.stages.size() > most_stages) text += "  … the others have slack, too\n";
    return text;
}

std::string iteration_words(const Plan &plan, const Course &course) {
    std::string text = "The iteration = ";
    if (course.tied > 0)
        text += exact(course.reduced) + " + " + exact(course.tied) +
                " for the tied embeddings of first and last stage = ";
    text += exact(course.seconds()) + "; the plan says " + exact(plan.iteration.seconds);
    if (agrees(plan, course)) return text + ": the same.\n";
    return text + ": NOT the same, " + exact(std::abs(plan.iteration.seconds - course.seconds())) + " " +
           (plan.iteration.seconds < course.seconds() ? "too little" : "too much") + ".\n";
}

std::string memory_words(const Plan &plan) {
    const auto fullest = std::max_element(plan.stages.begin(), plan.stages.end(),
                                          [](const Stage &a, const Stage &b) { return a.memory < b.memory; });
    if (fullest->memory <= 0) return {};
    return "Memory: stage " + std::to_string(fullest - plan.stages.begin()) + " is the fullest, " +
           gigabytes(fullest->memory) + " per GPU with " + batches(fullest->depth) + " in flight.\n";
}

std::string other_words(const Plan &plan, const Course &course) {
    std::string text;
    for (const auto &other : plan.alternatives)
        text += "Instead, " + other.name + ": " + exact(other.seconds) + " (" +
                decimal(other.seconds / plan.iteration.seconds, 2) + " x), at " + some_of(other.sites, 4) +
                (other.start > 0 ? ", in " + duration_words(other.start) : "") + ".\n";
    text += "Bound: " + gap_words(plan.iteration) + ".\n";
    const auto cure = best_cure(plan, course);
    if (cure.what.empty()) return text;
    return text + "What would help most: " + cure.what + ": " + exact(cure.seconds) + ", " +
           percent(1 - cure.seconds / course.seconds()) +
           " less.\n(Sites, shape and layers stay as they are in this.)\n";
}

} // namespace

bool agrees(const Plan &plan, const Course &course) {
    return std::abs(plan.iteration.seconds - course.seconds()) <= rounding * course.seconds();
}

std::string explanation(const Plan &plan, const Course &course) {
    const auto seats = seats_of(plan);
    return heading(plan, course) + "\n" + period_words(plan, seats, course) + "\n" +
           reduce_words(plan, course) + "\n" + iteration_words(plan, course) + memory_words(plan) + "\n" +
           link_lines(plan) + (plan.links.empty() ? "" : "\n") + other_words(plan, course);
}

} // namespace spider::plan
