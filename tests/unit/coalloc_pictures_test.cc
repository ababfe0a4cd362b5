// SPDX-License-Identifier: GPL-3.0-or-later
// HACKING.md and spiderflow(7) show the two tables of lib/coalloc, every row of them and no other.
#include "coalloc/part.h"
#include "coalloc/states.h"
#include "util/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace spider::coalloc {
namespace {

using Words = std::vector<std::string>;

// The columns of a line: what two blanks or more keep apart.
Words columns(const std::string &line) {
    Words found;
    for (std::size_t from = line.find_first_not_of(' '); from < line.size();) {
        const auto to = std::min(line.find("  ", from), line.size());
        found.push_back(line.substr(from, to - from));
        from = line.find_first_not_of(' ', to);
    }
    return found;
}

std::string row_text(const Words &words) { return util::join(words, " "); }

std::string row_of(const Transition &row) {
    Words words{std::string(name(row.from)), std::string(name(row.event)), "->", std::string(name(row.to))};
    if (row.action != Action::none) words.push_back("(" + std::string(name(row.action)) + ")");
    return row_text(words);
}

std::string row_of(const EndRule &rule) {
    const std::string retry = rule.again ? "again" : "-";
    return row_text({std::string(rule.words), rule.wanted ? "cancelled" : "failed", retry,
                     rule.elsewhere ? "without its site" : retry});
}

class Picture : public ::testing::TestWithParam<const char *> {
  protected:
    Picture() {
        std::ifstream file(std::string(SF_TEST_DATA "/../../") + GetParam());
        for (std::string line; std::getline(file, line);)
            lines_.push_back(line);
    }
    // `state  event  -> state (action)`, with any number of blanks
    [[nodiscard]] Words steps() const {
        Words found;
        for (const auto &line : lines_) {
            std::istringstream stream(line);
            Words words;
            for (std::string word; stream >> word;)
                words.push_back(word);
            if (words.size() >= 4 && words.size() <= 5 && words[2] == "->") found.push_back(row_text(words));
        }
        return found;
    }
    // What follows the line of the columns' names.
    [[nodiscard]] Words ends() const {
        Words found;
        const auto head = std::find_if(lines_.begin(), lines_.end(), [](const auto &line) {
            return columns(line) == Words{"the part", "ends as", "retry", "replan"};
        });
        for (auto line = head; line != lines_.end() && ++line != lines_.end();) {
            const auto words = columns(*line);
            if (words.size() != 4) break;
            found.push_back(row_text(words));
        }
        return found;
    }

  private:
    Words lines_;
};

TEST_P(Picture, ShowsEveryTransitionOfTheTableAndNoOther) {
    Words expected;
    for (const auto &row : transitions)
        expected.push_back(row_of(row));
    EXPECT_EQ(steps(), expected);
}

TEST_P(Picture, ShowsWhatEveryEndOfAPartMeans) {
    Words expected;
    for (const auto &rule : end_rules)
        expected.push_back(row_of(rule));
    EXPECT_EQ(ends(), expected);
}

INSTANTIATE_TEST_SUITE_P(Documents, Picture, ::testing::Values("HACKING.md", "man/spiderflow.7"));

} // namespace
} // namespace spider::coalloc
