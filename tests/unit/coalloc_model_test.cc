// SPDX-License-Identifier: GPL-3.0-or-later
// Every interleaving of two federated jobs, their sites, the broker and a few faults, up to a number of
// states: nothing is lost, doubled or left behind, and from every state on everything ends.
#include "unit/coalloc_world.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <unordered_set>

namespace spider::coalloc {
namespace {

struct Key {
    World world;
    bool operator==(const Key &other) const { return std::memcmp(&world, &other.world, sizeof world) == 0; }
};
struct Hash {
    std::size_t operator()(const Key &key) const {
        return std::hash<std::string_view>{}({reinterpret_cast<const char *>(&key.world), sizeof key.world});
    }
};
static_assert(alignof(World) == 1, "no padding: its bytes are its key");

struct Node {
    static constexpr std::uint32_t root = 0xffffffff;
    World world;
    std::uint32_t parent = 0;
    std::uint32_t depth = 0;
    Step step;
};

struct Found {
    std::size_t states = 0;
    std::uint32_t depth = 0; // every state up to it was visited
    bool all = false;        // there are no others
    std::string trouble;     // with the way to it; "" = none
};

class Search {
  public:
    Search(Rules rules, std::size_t most) : rules_(std::move(rules)), most_(most) {}

    // In breadth: every state up to a depth.
    Found run() {
        add(first_world(rules_), Node::root, 0, {"begin"});
        std::size_t next = 0;
        for (; next < nodes_.size() && trouble_.empty() && nodes_.size() < most_; ++next) {
            const auto world = nodes_[next].world;
            each_step(rules_, world, [&](const Step &step, const World &then) {
                add(then, static_cast<std::uint32_t>(next), nodes_[next].depth + 1, step);
            });
        }
        for (std::size_t i = 0; i < nodes_.size() && trouble_.empty(); ++i)
            for (Byte first = 0; first < 3 && trouble_.empty(); ++first)
                end_well(i, first);
        const bool all = next == nodes_.size();
        return {nodes_.size(), all ? nodes_.back().depth : nodes_[next].depth, all, trouble_};
    }

    // In depth: random ways from the beginning to the end.
    Found walk(unsigned seed) {
        std::mt19937 chance(seed);
        while (nodes_.size() < most_ && trouble_.empty()) {
            auto world = first_world(rules_);
            std::size_t last = nodes_.size();
            nodes_.push_back({world, Node::root, 0, {"begin"}});
            while (!all_ended(world) && nodes_[last].depth < 150 && trouble_.empty()) {
                std::vector<std::pair<Step, World>> steps;
                each_step(rules_, world, [&](const Step &step, const World &then) {
                    if (!(Key{then} == Key{world})) steps.emplace_back(step, then);
                });
                if (steps.empty()) break;
                const auto &[step, then] = steps[chance() % steps.size()];
                world = then;
                check(rules_, world);
                nodes_.push_back({world, static_cast<std::uint32_t>(last), nodes_[last].depth + 1, step});
                last = nodes_.size() - 1;
                look_at(last);
                end_well(last, static_cast<Byte>(chance() % 3));
            }
        }
        return {nodes_.size(), 150, false, trouble_};
    }

  private:
    void add(World world, std::uint32_t parent, std::uint32_t depth, const Step &step) {
        if (!trouble_.empty()) return;
        check(rules_, world);
        if (!visited_.insert(Key{world}).second) return;
        nodes_.push_back({world, parent, depth, step});
        look_at(nodes_.size() - 1);
    }

    void look_at(std::size_t index) {
        const auto &world = nodes_[index].world;
        if (world.broken != Broken::no)
            trouble_ = "broken rule " + std::to_string(static_cast<int>(world.broken)) + "\n" + way_to(index);
        if (index % 97 != 0) return;
        for (std::size_t j = 0; j < most_jobs; ++j) { // what a restart of the broker makes of it
            const auto job = job_of(rules_, world, j);
            auto back = job_from_json(to_json(job));
            if (back) back->spec = job.spec; // an empty one, and so not written
            if (!back || !(*back == job)) trouble_ = "the journal loses something\n" + way_to(index);
        }
    }

    // Each fair continuation ends, and lets no part idle for long after its patience.
    void end_well(std::size_t index, Byte first) {
        constexpr int most_rounds = 200, most_idle = 3;
        std::array<std::array<int, most_sites>, most_jobs> idle{};
        auto world = nodes_[index].world;
        std::string tail;
        for (int round = 0; !all_ended(world); ++round) {
            if (!ended_[first].insert(Key{world}).second && !on_way_.count(Key{world})) break;
            on_way_.insert(Key{world});
            world = fair_round(rules_, world, first);
            bool late = false;
            for (std::size_t j = 0; j < most_jobs; ++j)
                for (std::size_t i = 0; i < most_sites; ++i) {
                    idle[j][i] = idles_too_long(world, j, i) ? idle[j][i] + 1 : 0;
                    late = late || idle[j][i] > most_idle;
                }
            check(rules_, world);
            if (round < 12) tail += " fair round:\n" + describe(world);
            const char *what = world.broken != Broken::no ? "a broken rule"
                               : late                     ? "a part idles without limit"
                               : round > most_rounds      ? "no end"
                                                          : nullptr;
            if (what == nullptr) continue;
            trouble_ = std::string(what) + "\n" + way_to(index) + tail;
            return;
        }
        on_way_.clear();
    }

    std::string way_to(std::size_t index) const {
        std::string text;
        for (auto i = index;; i = nodes_[i].parent) {
            const auto &step = nodes_[i].step;
            text.insert(0, std::string(step.what) + " " + std::to_string(step.job + 1) + "." +
                               std::to_string(step.part) + "\n" + describe(nodes_[i].world));
            if (nodes_[i].parent == Node::root) return text;
        }
    }

    Rules rules_;
    std::size_t most_;
    std::deque<Node> nodes_;
    std::unordered_set<Key, Hash> visited_;
    std::array<std::unordered_set<Key, Hash>, 3> ended_;
    std::unordered_set<Key, Hash> on_way_;
    std::string trouble_;
};

void say(const Found &found) {
    std::printf("             %zu states, %s depth %u\n", found.states, found.all ? "all, to" : "up to",
                found.depth);
}

void expect_sound(const Rules &rules, std::size_t most) {
    const auto found = Search(rules, most).run();
    say(found);
    EXPECT_EQ(found.trouble, "");
}

// Every state, however long it takes to get there.
void expect_all_sound(const Rules &rules) {
    const auto found = Search(rules, 200000).run();
    say(found);
    EXPECT_EQ(found.trouble, "");
    EXPECT_TRUE(found.all);
}

void expect_trouble(const Rules &rules, const std::string &kind) {
    const auto found = Search(rules, 20000).run();
    EXPECT_EQ(found.trouble.substr(0, found.trouble.find('\n')), kind);
}

const std::vector<std::vector<Byte>> same{{0, 1}, {0, 1}}, opposite{{0, 1}, {1, 0}},
    three{{0, 1, 2}, {2, 1, 0}}, uneven{{0, 1, 2}, {1, 2}};

TEST(Model, TwoJobsAtTheSameSites) { expect_all_sound({.sites = same}); }
TEST(Model, TwoJobsInOppositeOrderWithBeginAndEstimates) {
    expect_all_sound({.sites = opposite, .estimates = true, .begin = true});
}
TEST(Model, ALocalJobGetsInBetween) {
    expect_sound({.sites = opposite, .locals = {false, true, false}, .estimates = true}, 15000);
}
TEST(Model, OneSiteHasRoomForTwo) {
    expect_sound({.sites = opposite, .capacity = {1, 2, 1}, .locals = {true, true, false}}, 15000);
}
TEST(Model, ThreeSitesInOppositeOrder) { expect_sound({.sites = three}, 15000); }
TEST(Model, PartsArePlacedThroughLostAnswersAndCancels) {
    expect_sound({.sites = opposite, .may_fail = "lC", .faults = 1, .from_placing = true}, 15000);
}
TEST(Model, AnswersOfActsAreLost) { expect_sound({.sites = opposite, .may_fail = "l", .faults = 1}, 15000); }
TEST(Model, PartsAreCancelledAndFail) {
    expect_sound({.sites = opposite, .may_fail = "cf", .faults = 1}, 15000);
}
TEST(Model, PartsFailAndAreTriedAgain) {
    expect_sound({.sites = opposite, .may_fail = "frn", .faults = 1, .on_failure = OnFailure::retry}, 15000);
}
TEST(Model, SitesStartPartsAnewAndUsersHoldThem) {
    expect_sound({.sites = opposite, .may_fail = "hq", .faults = 2}, 25000);
}
TEST(Model, SitesGoSilentAndAreLeftBehind) {
    expect_sound({.sites = uneven, .may_fail = "sf", .faults = 2, .on_failure = OnFailure::replan}, 15000);
}

class Walks : public ::testing::TestWithParam<OnFailure> {};
TEST_P(Walks, LongAndRandomThroughEveryKindOfFault) {
    for (const auto &sites : {same, opposite, three, uneven}) {
        const Rules rules{.sites = sites,
                          .capacity = {1, 2, 1},
                          .locals = {true, false, true},
                          .may_fail = "cCfnhrqsl",
                          .faults = 4,
                          .on_failure = GetParam(),
                          .from_placing = true,
                          .estimates = true,
                          .begin = true};
        const auto found = Search(rules, 10000).walk(17);
        EXPECT_EQ(found.trouble, "");
    }
}
INSTANTIATE_TEST_SUITE_P(Model, Walks,
                         ::testing::Values(OnFailure::cancel, OnFailure::retry, OnFailure::replan));

// What the model must find, or it would find nothing.
TEST(Planted, WithoutWoundWaitTwoJobsTakeTurnsForEver) {
    expect_trouble({.sites = opposite, .no_wound_wait = true}, "no end");
}
TEST(Planted, WithoutPatienceAndWoundWaitTheyWaitOnEachOther) {
    expect_trouble({.sites = opposite, .no_wound_wait = true, .no_patience = true},
                   "a part idles without limit");
}
TEST(Planted, WithoutPatienceAPartIdlesAsLongAsALocalJobRuns) {
    expect_trouble({.sites = opposite, .locals = {false, true, false}, .no_patience = true},
                   "a part idles without limit");
}
TEST(Planted, WithoutTheCountOfStartsAGiveBackIsNeverOver) {
    expect_trouble({.sites = opposite, .no_requeue_seen = true}, "no end");
}
TEST(Planted, WithoutTheMarkALostSubmissionIsDoubled) {
    expect_trouble({.sites = opposite, .may_fail = "l", .faults = 1, .from_placing = true, .no_mark = true},
                   "broken rule " + std::to_string(static_cast<int>(Broken::doubled)));
}

} // namespace
} // namespace spider::coalloc
