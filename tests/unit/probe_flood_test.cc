// SPDX-License-Identifier: GPL-3.0-or-later
// An agent under a flood and under noise: bounded memory, and it goes on.
#include "unit/probe_agents.h"

#include "probe/guard.h"

#include <fstream>
#include <memory>
#include <random>
#include <vector>

namespace spider::probe {
namespace {

using test::a_key;
using test::insider;
using test::Raw;
using test::Running;
using test::short_order;

constexpr Seconds patient = 20;

double resident_megabytes() {
    std::ifstream file("/proc/self/statm");
    double all = 0, resident = 0;
    file >> all >> resident;
    return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST(Flood, OfSilentConnectionsTakesNoMoreThanItsPlacesAndLittleMemory) {
    Running b("b");
    ASSERT_TRUE(measure(a_key(), short_order("a", "b", b), patient)); // so that all is warm
    const auto before = resident_megabytes();
    std::vector<std::unique_ptr<Raw>> flood;
    for (int i = 0; i < 300; ++i) {
        flood.push_back(std::make_unique<Raw>((*b).port(), "9"));
        flood.back()->say(
            std::string(1500, '\0').replace(2, 2, "\x07\xD0")); // a frame of 2,000 bytes, never whole
    }
    int closed = 0;
    for (const auto &one : flood)
        closed += one->hear(0) ? 1 : 0;
    for (int tries = 0; tries < 50 && closed < 300 - most_unproven;
         ++tries) { // the agent has yet to see some
        closed = 0;
        for (const auto &one : flood)
            closed += one->hear(0.0005) ? 1 : 0;
    }
    EXPECT_GE(closed, 300 - most_unproven);
    const auto found = measure(a_key(), short_order("a", "b", b), patient); // from 127.0.0.1
    EXPECT_TRUE(found) << found.error().what;
    EXPECT_LT(resident_megabytes() - before, 20);
}

std::string noise(std::mt19937 &random, std::size_t most) {
    std::string bytes(random() % most, '\0');
    for (auto &byte : bytes)
        byte = static_cast<char>(random());
    return bytes;
}

TEST(Noise, OfStrangersIsNeverAnswered) {
    Running b("b");
    std::mt19937 random(7); // NOLINT: the same noise each time
    const auto before = resident_megabytes();
    for (int i = 0; i < 1500; ++i) {
        const Raw stranger((*b).port());
        std::string said = noise(random, 3000);
        if (i % 2 == 0) { // a good length and a wrong MAC
            const auto size = random() % 1000;
            said = noise(random, 1) +
                   std::string{'\0', '\0', static_cast<char>(size / 256), static_cast<char>(size % 256)} +
                   std::string(size + sizeof(Digest), 'x');
        }
        stranger.say(said);
        ::shutdown(stranger.fd(), SHUT_WR);
        ASSERT_EQ(stranger.hear(patient), "") << i;
    }
    EXPECT_LT(resident_megabytes() - before, 20);
    EXPECT_TRUE(measure(a_key(), short_order("a", "b", b), patient));
}

Json any_json(std::mt19937 &random, int depth) {
    switch (random() % (depth > 0 ? 9 : 6)) {
    case 0:
        return nullptr;
    case 1:
        return random() % 2 == 0;
    case 2:
        return static_cast<double>(random()) * (random() % 2 == 0 ? 1e300 : -1e-300);
    case 3:
        return static_cast<std::int64_t>(random()) - (1ll << 31);
    case 4:
        return noise(random, 30);
    case 5:
        return std::array{"test", "measure", "attach", "echo", "phase", "start", "finish"}.at(random() % 7);
    case 6:
        return Json::array({any_json(random, depth - 1), any_json(random, depth - 1)});
    default:
        Json object = Json::object();
        for (const auto *key : {"do", "order", "token", "phase", "back", "seconds", "streams", "most_bytes",
                                "pace_gbps", "from", "to", "address"})
            if (random() % 2 == 0) object[key] = any_json(random, depth - 1);
        return object;
    }
}

TEST(Noise, OfAHolderOfTheKeyEndsItsConnectionAndNothingElse) {
    Running b("b");
    std::mt19937 random(11); // NOLINT: the same noise each time
    for (int i = 0; i < 1500; ++i) {
        const Deadline deadline(patient);
        auto channel = insider(b);
        auto request = Json::object();
        for (int more = 0; more < 3; ++more) {
            request = any_json(random, 3);
            if (!request.is_object()) request = {{"do", request}};
            const auto what = model::text_at(request, "do");
            if (what == "measure") request["order"] = nullptr; // it could be a good one
            if (!channel.send(request, deadline)) break;
        }
    }
    const Deadline deadline(patient);
    while (deadline.left() > 0) {
        const auto found = measure(a_key(), short_order("a", "b", b), patient);
        if (!found && is_busy(found.error())) continue;
        EXPECT_TRUE(found) << found.error().what;
        return;
    }
    FAIL() << "still busy";
}

} // namespace
} // namespace spider::probe
