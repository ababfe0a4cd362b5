// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/table.h"

#include "cli/common.h"

#include <algorithm>

namespace spider::cli {
namespace {

std::size_t width(const std::string &text) { // characters of UTF-8
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

} // namespace

std::string Table::text() const {
    std::vector<std::vector<std::string>> lines(1);
    for (const auto &column : columns_)
        lines[0].push_back(column.title);
    for (const auto &row : rows_) {
        auto &line = lines.emplace_back();
        for (const auto &cell : row)
            line.push_back(printable(cell));
        line.resize(columns_.size());
    }
    std::vector<std::size_t> widths(columns_.size());
    for (const auto &line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], width(line[i]));
    std::string all;
    for (const auto &line : lines) {
        std::string out;
        for (std::size_t i = 0; i < line.size(); ++i) {
            const std::string pad(widths[i] - width(line[i]), ' ');
            if (i > 0) out += "  ";
            out += columns_[i].right ? pad + line[i] : line[i] + pad;
        }
        out.erase(out.find_last_not_of(' ') + 1);
        all += out + "\n";
    }
    return all;
}

} // namespace spider::cli
