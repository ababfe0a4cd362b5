// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/svg.h"

#include "plan/words.h"

namespace spider::plan {

std::string picture(const Plan &plan, const Course &course, const Federation *federation) {
    const auto sites = static_cast<int>(plan.parts.size());
    const auto title = shape_words(plan) + " over " + count(sites, "site") + ": " +
                       seconds_words(plan.iteration.seconds) + " for an iteration";
    Canvas canvas;
    canvas.text({30, 38}, title, 20, Canvas::Anchor::start, "font-weight=\"bold\"");
    canvas.text({30, 60}, gap_words(plan.iteration), 13, Canvas::Anchor::start, "fill=\"#555\"");
    const auto middle = draw_map(canvas, 80, plan, course, federation);
    const auto end = draw_timeline(canvas, middle + 20, plan, course);
    return canvas.page(picture_width, end + 20, title);
}

} // namespace spider::plan
