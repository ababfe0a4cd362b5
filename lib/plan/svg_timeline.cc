// SPDX-License-Identifier: GPL-3.0-or-later
// The slowest pipeline over time, a row for each stage: its begin, its end, and the all-reduces after it.
#include "plan/svg.h"
#include "plan/timeline.h"
#include "plan/words.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>

namespace spider::plan {

namespace {

constexpr int head = 16, tail = 6; // micro-batches that are drawn whole, at least
constexpr double left = 90, right = picture_width - 30, between = 26;
constexpr auto forward_colour = "#5b9bd5", backward_colour = "#f0a044", reduce_colour = "#8e6bbf",
               tied_colour = "#c2587f";

// A stretch of time with a scale.
struct Panel {
    std::string title;
    Seconds begin = 0, end = 0;
    double x = 0, width = 0;
    [[nodiscard]] double at(Seconds time) const { return x + (time - begin) / (end - begin) * width; }
};

struct Chart {
    std::vector<Block> blocks;
    std::vector<Panel> panels; // of the pipeline
    Panel reduce;              // empty: nothing is reduced
    double top = 0, row = 18;
};

// The first and the last micro-batches, at one scale; all of them where they fit.
std::vector<Panel> pipeline_panels(const std::vector<Block> &blocks, const Course &course,
                                   int micro_batches) {
    const auto &pipeline = course.pipelines[static_cast<std::size_t>(course.slowest)];
    Seconds slowest = 0;
    for (const auto &stage : pipeline.stages)
        slowest = std::max(slowest, stage.both());
    constexpr double most_blocks = 40; // of the slowest stage: more would be too thin to see
    Panel first{"the first micro-batches", 0, 0}, last{"the last", course.pipeline, course.pipeline};
    for (const auto &block : blocks) {
        if (block.stage == 0 && block.backward && block.micro_batch < head)
            first.end = std::max(first.end, block.end);
        if (block.stage == 0 && block.backward && block.micro_batch >= micro_batches - tail)
            last.begin = std::min(last.begin, block.begin);
    }
    first.end = std::min(first.end, std::max(most_blocks * slowest, one_pass(pipeline)));
    if (first.end >= last.begin) return {{"all micro-batches", 0, course.pipeline}};
    return {first, last};
}

// Widths: the pipeline's panels at one scale, the all-reduces at their own.
void lay(Chart &chart, double reduce_width) {
    Seconds sum = 0;
    for (const auto &panel : chart.panels)
        sum += panel.end - panel.begin;
    const double width = right - left - between * static_cast<double>(chart.panels.size() - 1) -
                         (reduce_width > 0 ? reduce_width + between : 0);
    double x = left;
    for (auto &panel : chart.panels) {
        panel.x = x, panel.width = sum > 0 ? width * (panel.end - panel.begin) / sum : width;
        x += panel.width + between;
    }
    chart.reduce.x = x, chart.reduce.width = reduce_width;
}

// 1, 2 or 5 times a power of ten, so that some five fit.
double step_of(double span) {
    const double rough = span / 5, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (rough <= factor * power) return factor * power;
    return 10 * power;
}

void draw_axis(Canvas &canvas, const Panel &panel, double top, double bottom) {
    canvas.box({panel.x, top}, panel.width, bottom - top, "fill=\"#fafafa\" stroke=\"#ddd\"");
    canvas.text({panel.x, top - 6}, panel.title, 11, Canvas::Anchor::start, "fill=\"#555\"");
    if (panel.width < 40) return;
    const double step = step_of((panel.end - panel.begin) * std::min(1.0, 300 / panel.width) + 1e-12);
    const double first = std::ceil(panel.begin / step - 1e-9);
    double written = panel.x - 60;
    for (int n = 0; n < 100 && (first + n) * step <= panel.end; ++n) {
        const double x = panel.at((first + n) * step);
        canvas.line({x, top}, {x, bottom + 4}, "stroke=\"#e4e4e4\"");
        if (x - written < 58) continue;
        canvas.text({x, bottom + 16}, util::number((first + n) * step, 5) + " s", 10, Canvas::Anchor::middle,
                    "fill=\"#555\"");
        written = x;
    }
}

void draw_blocks(Canvas &canvas, const Chart &chart, const Panel &panel) {
    for (const auto &block : chart.blocks) {
        const auto begin = std::max(block.begin, panel.begin), end = std::min(block.end, panel.end);
        if (end <= begin) continue;
        const double x = panel.at(begin), width = panel.at(end) - x, y = chart.top + block.stage * chart.row;
        canvas.box({x, y + 1}, std::max(width, 0.3), chart.row - 2,
                   std::string("fill=\"") + (block.backward ? backward_colour : forward_colour) + "\"" +
                       (width > 4 ? " stroke=\"#fff\" stroke-width=\"0.5\"" : ""));
        const auto number = std::to_string(block.micro_batch);
        if (chart.row >= 14 && width > 7.0 * static_cast<double>(number.size()) + 2)
            canvas.text({x + width / 2, y + chart.row / 2 + 3.5}, number, 9, Canvas::Anchor::middle,
                        "fill=\"#fff\"");
    }
}

void draw_reduces(Canvas &canvas, const Chart &chart, const Plan &plan, const Course &course) {
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const double y = chart.top + static_cast<double>(i) * chart.row;
        const double x = chart.reduce.at(course.ends[i]);
        if (plan.stages[i].gradient > 0)
            canvas.box({x, y + 1},
                       std::max(0.5, chart.reduce.at(course.ends[i] + plan.stages[i].gradient) - x),
                       chart.row - 2, std::string("fill=\"") + reduce_colour + "\"");
    }
    if (course.tied <= 0) return;
    const double x = chart.reduce.at(course.reduced),
                 width = std::max(0.5, chart.reduce.at(course.seconds()) - x);
    for (const auto i : {std::size_t{0}, plan.stages.size() - 1})
        canvas.box({x, chart.top + static_cast<double>(i) * chart.row + 1}, width, chart.row - 2,
                   std::string("fill=\"") + tied_colour + "\"");
}

void draw_legend(Canvas &canvas, double y, const Plan &plan, const Course &course) {
    double x = left;
    const auto entry = [&](const char *colour, const std::string &words) {
        canvas.box({x, y - 10}, 12, 12, std::string("fill=\"") + colour + "\"");
        canvas.text({x + 18, y}, words, 11);
        x += 50 + 6.5 * static_cast<double>(words.size());
    };
    const std::string with = plan.sends == Sends::blocking ? " and its send" : "";
    entry(forward_colour, "forward of a micro-batch" + with);
    entry(backward_colour, "backward" + with);
    if (course.reduced > course.pipeline)
        entry(reduce_colour, "all-reduce of a stage, when all its members have ended");
    if (course.tied > 0) entry(tied_colour, "tied embeddings");
}

} // namespace

double draw_timeline(Canvas &canvas, double top, const Plan &plan, const Course &course) {
    const auto stages = plan.stages.size();
    Chart chart;
    chart.top = top + 48;
    chart.row = std::clamp(400 / static_cast<double>(stages), 6.0, 20.0);
    const auto name = plan.dp > 1 ? "Pipeline " + std::to_string(course.slowest) + ", the one that ends last"
                                  : "The pipeline";
    canvas.text({30, top + 16}, name + ", " + std::to_string(plan.micro_batches) + " micro-batches", 15,
                Canvas::Anchor::start, "font-weight=\"bold\"");
    const int most = course.depths.front();
    const int wanted =
        std::min(plan.micro_batches, std::min(most, 1000) + 2 * head); // more than fits the first panel
    chart.blocks = timeline(course.pipelines[static_cast<std::size_t>(course.slowest)], course.depths,
                            plan.micro_batches, wanted, wanted);
    chart.panels = pipeline_panels(chart.blocks, course, plan.micro_batches);
    const bool reduces = course.seconds() > course.pipeline;
    if (reduces)
        chart.reduce = {"all-reduce, other scale", *std::min_element(course.ends.begin(), course.ends.end()),
                        course.seconds()};
    lay(chart, reduces ? 260 : 0);
    const double bottom = chart.top + static_cast<double>(stages) * chart.row;
    for (const auto &panel : chart.panels) {
        draw_axis(canvas, panel, chart.top, bottom);
        draw_blocks(canvas, chart, panel);
    }
    if (reduces) {
        draw_axis(canvas, chart.reduce, chart.top, bottom);
        draw_reduces(canvas, chart, plan, course);
    }
    const auto every = static_cast<std::size_t>(std::ceil(11 / chart.row));
    for (std::size_t i = 0; i < stages; i += every)
        canvas.text({left - 8, chart.top + (static_cast<double>(i) + 0.5) * chart.row + 4},
                    "stage " + std::to_string(i), 11, Canvas::Anchor::end);
    draw_legend(canvas, bottom + 42, plan, course);
    return bottom + 50;
}

} // namespace spider::plan
