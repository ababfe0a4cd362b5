// SPDX-License-Identifier: GPL-3.0-or-later
// A picture as SVG text: shapes in pixels, names escaped. One owner, one thread.
#pragma once

#include <string>
#include <string_view>

namespace spider::plan {

struct Point {
    double x = 0, y = 0;
};

class Canvas {
  public:
    enum class Anchor { start, middle, end };

    void line(Point from, Point to, std::string_view style);
    // From a to b over the control point c.
    void curve(Point a, Point c, Point b, std::string_view style);
    void arrow(Point at, Point direction, std::string_view colour);
    void circle(Point at, double radius, std::string_view style);
    void box(Point corner, double width, double height, std::string_view style);
    void text(Point at, std::string_view words, double size, Anchor anchor = Anchor::start,
              std::string_view style = "");

    // The whole document.
    [[nodiscard]] std::string page(double width, double height, std::string_view title) const;

  private:
    std::string body_;
};

// Safe inside XML: no control characters, nothing but UTF-8, "<&>" escaped. At most `most` characters.
std::string escaped(std::string_view text, std::size_t most = 60);

} // namespace spider::plan
