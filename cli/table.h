// SPDX-License-Identifier: GPL-3.0-or-later
// A table for people: columns as wide as their widest cell, two blanks between. Pure.
#pragma once

#include <string>
#include <vector>

namespace spider::cli {

struct Column {
    std::string title;
    bool right = false; // numbers
};

class Table {
  public:
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    [[nodiscard]] bool empty() const { return rows_.empty(); }
    [[nodiscard]] std::string text() const; // lines without trailing blanks; cells made printable

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace spider::cli
