// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/canvas.h"

#include "util/text.h"

#include <cmath>

namespace spider::plan {

namespace {

// A hundredth of a pixel is enough, and keeps the file small.
std::string px(double value) {
    return std::isfinite(value) ? util::number(std::round(value * 100) / 100 + 0.0, 8) : "0";
}

std::string place(const char *x, const char *y, Point at) {
    return " " + std::string(x) + "=\"" + px(at.x) + "\" " + y + "=\"" + px(at.y) + "\"";
}

// Bytes of the character that begins here; 0: not UTF-8.
std::size_t length_of(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t length = byte(0) < 0x80   ? 1
                               : byte(0) < 0xC2 ? 0
                               : byte(0) < 0xE0 ? 2
                               : byte(0) < 0xF0 ? 3
                               : byte(0) < 0xF5 ? 4
                                                : 0;
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    const bool surrogate = byte(0) == 0xED && byte(1) >= 0xA0; // and other letters that XML does not know
    const bool none = byte(0) == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE;
    const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90) ||
                          (byte(0) == 0xF4 && byte(1) > 0x8F);
    const bool control = byte(0) == 0xC2 && byte(1) < 0xA0;
    return surrogate || none || overlong || control ? 0 : length;
}

std::string letter(std::string_view character) {
    switch (character[0]) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F
                   ? "?"
                   : std::string(character);
    }
}

} // namespace

std::string escaped(std::string_view text, std::size_t most) {
    std::string safe;
    for (std::size_t letters = 0; !text.empty(); ++letters) {
        if (letters == most) return safe + "…";
        const auto length = length_of(text);
        safe += length == 0 ? "?" : letter(text.substr(0, length));
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return safe;
}

void Canvas::line(Point from, Point to, std::string_view style) {
    body_ += "<line" + place("x1", "y1", from) + place("x2", "y2", to) + " " + std::string(style) + "/>\n";
}

void Canvas::curve(Point a, Point c, Point b, std::string_view style) {
    body_ += "<path d=\"M" + px(a.x) + " " + px(a.y) + "Q" + px(c.x) + " " + px(c.y) + " " + px(b.x) + " " +
             px(b.y) + "\" fill=\"none\" " + std::string(style) + "/>\n";
}

void Canvas::arrow(Point at, Point direction, std::string_view colour) {
    const auto length = std::hypot(direction.x, direction.y);
    if (!(length > 0)) return;
    const Point along{4.5 * direction.x / length, 4.5 * direction.y / length};
    body_ += "<path d=\"M" + px(at.x + along.x) + " " + px(at.y + along.y) + "L" +
             px(at.x - along.x - along.y) + " " + px(at.y - along.y + along.x) + "L" +
             px(at.x - along.x + along.y) + " " + px(at.y - along.y - along.x) + "Z\" fill=\"" +
             std::string(colour) + "\"/>\n";
}

void Canvas::circle(Point at, double radius, std::string_view style) {
    body_ += "<circle" + place("cx", "cy", at) + " r=\"" + px(radius) + "\" " + std::string(style) + "/>\n";
}

void Canvas::box(Point corner, double width, double height, std::string_view style) {
    body_ += "<rect" + place("x", "y", corner) + " width=\"" + px(width) + "\" height=\"" + px(height) +
             "\" " + std::string(style) + "/>\n";
}

void Canvas::text(Point at, std::string_view words, double size, Anchor anchor, std::string_view style) {
    constexpr const char *anchors[] = {"start", "middle", "end"};
    body_ += "<text" + place("x", "y", at) + " font-size=\"" + px(size) + "\" text-anchor=\"" +
             anchors[static_cast<int>(anchor)] + "\" " + std::string(style) + ">" + escaped(words, 200) +
             "</text>\n";
}

std::string Canvas::page(double width, double height, std::string_view title) const {
    const auto size = "width=\"" + px(width) + "\" height=\"" + px(height) + "\"";
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
           " viewBox=\"0 0 " + px(width) + " " + px(height) +
           "\" font-family=\"DejaVu Sans, Verdana, sans-serif\" fill=\"#222\">\n<title>" +
           escaped(title, 200) + "</title>\n<rect " + size + " fill=\"#fff\"/>\n" + body_ + "</svg>\n";
}

} // namespace spider::plan
