// SPDX-License-Identifier: GPL-3.0-or-later
// The picture of a plan: sound XML, every name in it, nothing but numbers in its numbers.
#include "plan/planner.h"
#include "plan/svg.h"

#include "plan_fixture.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spider::plan {
namespace {

// Enough XML for what we write: elements, attributes in double quotes, text; gives what is wrong.
class Xml {
  public:
    explicit Xml(std::string_view text) : text_(text) {}

    std::string trouble() {
        if (text_.starts_with("<?xml")) skip_past("?>");
        std::vector<std::string> open;
        while (!text_.empty() && trouble_.empty()) {
            if (text_[0] != '<') {
                check_text(take_until('<'));
            } else if (text_.starts_with("</")) {
                const auto name = std::string(take_until('>').substr(2));
                if (open.empty() || open.back() != name) return "closes " + name;
                open.pop_back(), text_.remove_prefix(1);
            } else {
                read_tag(std::string(take_until('>').substr(1)), open);
                if (!text_.empty()) text_.remove_prefix(1);
            }
        }
        return trouble_.empty() && !open.empty() ? open.back() + " stays open" : trouble_;
    }
    std::vector<std::string> numbers; // values of the attributes that must be numbers
    std::vector<std::string> words;   // between elements, unescaped

  private:
    std::string_view take_until(char end) {
        const auto taken = text_.substr(0, text_.find(end));
        text_.remove_prefix(taken.size());
        return taken;
    }
    void skip_past(std::string_view end) { text_.remove_prefix(text_.find(end) + end.size()); }
    void check_text(std::string_view text) {
        std::string plain;
        for (; !text.empty(); text.remove_prefix(1)) {
            if (static_cast<unsigned char>(text[0]) < 0x20 && text[0] != '\n')
                trouble_ = "a control character";
            if (text[0] != '&') {
                plain += text[0];
                continue;
            }
            bool known = false;
            for (const auto &[name, letter] :
                 {std::pair("&lt;", '<'), {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}}) {
                if (!text.starts_with(name)) continue;
                plain += letter, known = true;
                text.remove_prefix(std::string_view(name).size() - 1);
                break;
            }
            if (!known) trouble_ = "a bare &";
        }
        if (plain.find_first_not_of('\n') != std::string::npos) words.push_back(plain);
    }
    void read_tag(std::string tag, std::vector<std::string> &open) {
        const bool empty = tag.ends_with('/');
        if (empty) tag.pop_back();
        const auto name = tag.substr(0, tag.find(' '));
        std::string_view rest = std::string_view(tag).substr(name.size());
        while (rest.find_first_not_of(' ') != std::string_view::npos) {
            rest.remove_prefix(rest.find_first_not_of(' '));
            const auto equals = rest.find("=\""), end = rest.find('"', equals + 2);
            if (equals == std::string_view::npos || end == std::string_view::npos) {
                trouble_ = "attributes of " + name;
                return;
            }
            const auto key = rest.substr(0, equals);
            const auto value = std::string(rest.substr(equals + 2, end - equals - 2));
            if (value.find('<') != std::string::npos) trouble_ = "< in an attribute";
            for (const auto *number :
                 {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "font-size"})
                if (key == number) numbers.push_back(value);
            rest.remove_prefix(end + 1);
        }
        if (name == "script" || name == "image" || name == "style") trouble_ = name;
        if (!empty) open.push_back(name);
    }

    std::string_view text_;
    std::string trouble_;
};

struct Case {
    Federation federation;
    Plan plan;
    [[nodiscard]] std::string svg() const { return picture(plan, *course_of(plan), &federation); }
};

Case made(std::vector<Site> sites, int pp, int dp, std::vector<std::string> names) {
    auto spec = job(gpt2(), 64, "");
    spec.tp = 1, spec.pp = pp, spec.dp = dp, spec.sites = std::move(names);
    auto federation = clique(std::move(sites), 5, 40);
    auto plan = make_plan(federation, spec, {.budget = 0.02});
    EXPECT_TRUE(plan && plan->outcome == Outcome::planned);
    return {std::move(federation), *plan};
}

std::vector<Case> cases() {
    std::vector<Case> all;
    all.push_back(made({site("a", 1, 2), site("b", 1, 2)}, 2, 2, {"a", "b"}));
    all.push_back(made({site("a", 1, 2), site("b", 1, 2), site("idle", 1, 1)}, 4, 1, {"a", "b"}));
    all.push_back(made({site("alone", 1, 4)}, 1, 4, {}));
    std::vector<Site> many;
    std::vector<std::string> names;
    for (int i = 0; i < 30; ++i) {
        many.push_back(site("site" + std::to_string(i), 1, 1));
        if (i < 12) names.push_back("site" + std::to_string(i));
    }
    all.push_back(made(std::move(many), 12, 1, names));
    return all;
}

TEST(Picture, IsSoundXmlWithFiniteNumbersOnly) {
    for (const auto &one : cases()) {
        const auto text = one.svg();
        Xml xml(text);
        EXPECT_EQ(xml.trouble(), "");
        EXPECT_GT(xml.numbers.size(), 50u);
        for (const auto &number : xml.numbers) {
            const auto value = std::stod(number);
            EXPECT_TRUE(std::isfinite(value) && std::abs(value) < 1e5) << number;
        }
        for (const auto *word : {"nan", "inf\"", "http://www.w3.org/1999/xlink", "href", "@import"})
            EXPECT_EQ(text.find(word), std::string::npos) << word;
    }
}

TEST(Picture, NamesEverySiteAndStage) {
    for (const auto &one : cases()) {
        const auto text = one.svg();
        Xml xml(text);
        ASSERT_EQ(xml.trouble(), "");
        const auto says = [&](const std::string &word) {
            return std::any_of(xml.words.begin(), xml.words.end(),
                               [&](const std::string &words) { return words.starts_with(word); });
        };
        for (const auto &site : one.federation.sites())
            EXPECT_TRUE(says(site.name)) << site.name;
        for (int i = 0; i < one.plan.pp; ++i)
            EXPECT_TRUE(says("stage " + std::to_string(i))) << i;
    }
}

TEST(Picture, IsTheSameForTheSamePlan) {
    const auto first = cases(), second = cases();
    for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_EQ(first[i].svg(), second[i].svg());
}

TEST(Picture, NeedsNoFederation) {
    for (const auto &one : cases()) {
        const auto text = picture(one.plan, *course_of(one.plan), nullptr);
        Xml xml(text);
        EXPECT_EQ(xml.trouble(), "");
    }
}

TEST(Picture, NamesCannotBreakOut) {
    const std::string evil = "<&>\"'\x01\xff]]><script>";
    auto one = made({site("a", 1, 2), site("b", 1, 2)}, 2, 2, {"a", "b"});
    for (auto &part : one.plan.parts)
        if (part.site == "a") part.site = evil;
    for (auto &stage : one.plan.stages)
        std::replace(stage.ring.begin(), stage.ring.end(), std::string("a"), evil);
    const auto text = one.svg();
    Xml xml(text);
    EXPECT_EQ(xml.trouble(), "");
    EXPECT_TRUE(std::any_of(xml.words.begin(), xml.words.end(), [](const std::string &words) {
        return words.find("<&>\"'??]]><script>") != std::string::npos;
    }));
    EXPECT_EQ(text.find("<script"), std::string::npos);
}

TEST(Picture, ManySitesThatAreNotUsedAreOnlyCounted) {
    std::vector<Site> many{site("used", 1, 8)};
    for (int i = 0; i < 120; ++i)
        many.push_back(site("idle" + std::to_string(i), 1, 1));
    const auto one = made(std::move(many), 2, 4, {"used"});
    const auto text = one.svg();
    EXPECT_NE(text.find("120 sites not used"), std::string::npos);
    EXPECT_EQ(text.find("idle7"), std::string::npos);
}

TEST(Escaped, KeepsLettersOfAllLanguagesAndEnds) {
    EXPECT_EQ(escaped("a<b>&\"c"), "a&lt;b&gt;&amp;&quot;c");
    EXPECT_EQ(escaped("gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x95\xb7"),
              "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x95\xb7");
    EXPECT_EQ(escaped("\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbf\xc2\x85\x7f\n"), std::string(13, '?'));
    EXPECT_EQ(escaped(std::string(100, '<'), 3), "&lt;&lt;&lt;…");
}

} // namespace
} // namespace spider::plan
