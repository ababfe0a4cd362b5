// SPDX-License-Identifier: GPL-3.0-or-later
// Measurements of others: what is taken from each form, what is refused, and that no bytes do harm.
#include "probe/import.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

namespace spider::probe {
namespace {

constexpr Seconds november = 1793700900; // 2026-11-03T10:15:00Z

std::string data(const std::string &name) {
    std::ifstream file(std::string(SF_TEST_DATA) + "/links/" + name, std::ios::binary);
    EXPECT_TRUE(file) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

const ImportOptions between{.from = "s1", .to = "s2"};
const ImportOptions hosts{.sites = {{"192.0.2.10", "s1"},
                                    {"198.51.100.20", "s2"},
                                    {"dtn.s1.example.org", "s1"},
                                    {"dtn.s2.example.org", "s2"}}};

std::vector<Sample> import(const std::vector<std::string> &files, const ImportOptions &options) {
    Importer importer(options);
    for (const auto &file : files) {
        const auto added = importer.add(file, data(file));
        EXPECT_TRUE(added) << added.error().what;
    }
    const auto samples = importer.samples();
    EXPECT_TRUE(samples) << samples.error().what;
    return samples ? *samples : std::vector<Sample>{};
}

Sample from_to(const std::vector<Sample> &samples, const std::string &from, const std::string &to) {
    for (const auto &sample : samples)
        if (sample.from == from && sample.to == to) return sample;
    ADD_FAILURE() << from << " -> " << to;
    return {};
}

std::string refusal(const std::string &text, const ImportOptions &options = between) {
    Importer importer(options);
    const auto added = importer.add("file", text);
    const auto samples = importer.samples();
    if (!added) {
        EXPECT_TRUE(samples && samples->empty()) << "nothing of it counts";
        return added.error().what;
    }
    return samples ? "taken" : samples.error().what;
}

TEST(Iperf3, WhatArrivedCountsAndTheOmittedSecondDoesNot) {
    const auto found = import({"iperf3_tcp.json"}, between);
    ASSERT_EQ(found.size(), 1u);
    const auto forth = from_to(found, "s1", "s2");
    EXPECT_NEAR(forth.gbps, 0.8 * (4 + 0.9) / 5 * 0.99, 1e-9);
    EXPECT_NEAR(forth.gbps_low, 0.72, 1e-9) << "the worst of five seconds, not the first one's 0.32";
    EXPECT_EQ(forth.rtt_ms, 0) << "that of a full link is no round trip";
    EXPECT_EQ(forth.streams, 2);
    EXPECT_EQ(forth.retransmits, 7);
    EXPECT_EQ(forth.congestion, "cubic");
    EXPECT_EQ(forth.at, november);
    EXPECT_EQ(forth.source, Source::iperf3);
}

TEST(Iperf3, ReverseAndBothWaysGoTheRightWay) {
    EXPECT_GT(from_to(import({"iperf3_reverse.json"}, between), "s2", "s1").gbps, 0.7);
    const auto both = import({"iperf3_bidir.json"}, hosts);
    EXPECT_NEAR(from_to(both, "s1", "s2").gbps_both, 0.8 * 4.9 / 5 * 0.99, 1e-9);
    EXPECT_NEAR(from_to(both, "s2", "s1").gbps, 0.4 * 0.98, 1e-9);
}

TEST(Iperf3, OfUdpWhatWasLostDoesNotCount) {
    const auto found = import({"iperf3_udp.json"}, between);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NEAR(found[0].gbps, 0.8 * (1 - 0.00001), 1e-9);
}

TEST(Iperf3, ALimitThatWasReachedIsNoBandwidth) {
    auto json = model::parse_json(data("iperf3_udp.json"));
    ASSERT_TRUE(json);
    (*json)["start"]["test_start"]["target_bitrate"] = 8e8;
    EXPECT_EQ(refusal(model::print_json(*json)),
              "file: the test was told to send no faster than 0.8 Gbit/s: that is no bandwidth of the link");
    (*json)["start"]["test_start"]["target_bitrate"] = 1e9;
    EXPECT_EQ(refusal(model::print_json(*json)), "taken") << "it was slower than that";
}

TEST(Iperf3, TheServersFileIsRefused) {
    auto json = model::parse_json(data("iperf3_tcp.json"));
    ASSERT_TRUE(json);
    (*json)["start"]["accepted_connection"] = {{"host", "192.0.2.10"}, {"port", 40000}};
    EXPECT_EQ(refusal(model::print_json(*json)), "file: it is the server's file; import the client's");
}

TEST(Iperf3, AFailedTestIsItsOwnMessage) {
    EXPECT_EQ(refusal(data("iperf3_refused.json")),
              "file: the test failed: error - unable to connect to server: Connection refused");
}

TEST(Pscheduler, ThroughputOfARecord) {
    const auto found = import({"pscheduler_throughput.json"}, hosts);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].gbps, 8.7) << "what the receiver got";
    EXPECT_NEAR(found[0].gbps_low, 7.2, 1e-9);
    EXPECT_EQ(found[0].streams, 4);
    EXPECT_EQ(found[0].at, november) << "11:15 at +01:00";
    EXPECT_EQ(found[0].source, Source::perfsonar);
}

TEST(Pscheduler, ARoundTripHoldsForBothDirections) {
    const auto found = import({"pscheduler_rtt.json"}, hosts);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_NEAR(from_to(found, "s2", "s1").rtt_ms, 26.0, 1e-9) << "the 11th of 20, 25.0 to 26.9";
    EXPECT_EQ(from_to(found, "s1", "s2").rtt_min_ms, 25);
}

TEST(Pscheduler, TwoLatenciesMakeARoundTripAndOneDoesNot) {
    const auto found = import({"pscheduler_latency.json"}, hosts);
    EXPECT_NEAR(from_to(found, "s1", "s2").rtt_ms, 12.5 + 13.0, 1e-9);
    EXPECT_NEAR(from_to(found, "s2", "s1").rtt_min_ms, 12.4 + 13.0, 1e-9);
    auto one = model::parse_json(data("pscheduler_latency.json"));
    ASSERT_TRUE(one);
    EXPECT_EQ(refusal(model::print_json((*one)[0]), hosts),
              "latency s1 -> s2: the way back is missing; import s2 -> s1 with it");
}

TEST(Pscheduler, ARunOfTheApiHasItsResultMerged) {
    auto run = model::parse_json(data("pscheduler_throughput.json"));
    ASSERT_TRUE(run);
    (*run)["result-merged"] = (*run)["result"];
    run->erase("result");
    EXPECT_EQ(refusal(model::print_json(*run), hosts), "taken");
    (*run)["test"]["spec"]["bandwidth"] = 9e9;
    EXPECT_NE(refusal(model::print_json(*run), hosts).find("no bandwidth of the link"), std::string::npos);
}

TEST(Pscheduler, ClocksThatDifferCancelOut) {
    auto both = model::parse_json(data("pscheduler_latency.json"));
    ASSERT_TRUE(both);
    (*both)[0]["result"]["histogram-latency"] = {{"-3.5", 600}}; // 16 ms early
    (*both)[1]["result"]["histogram-latency"] = {{"29.0", 600}};
    Importer importer(hosts);
    ASSERT_TRUE(importer.add("file", model::print_json(*both)));
    EXPECT_NEAR(importer.samples()->front().rtt_ms, 25.5, 1e-9);
    (*both)[1]["result"]["histogram-latency"] = {{"2.0", 600}};
    EXPECT_EQ(refusal(model::print_json(*both), hosts), "a round trip in ms of -1.5: no link is like that");
}

TEST(Time, NeedsItsZoneAndADayThatThereIs) {
    EXPECT_EQ(time_of("2026-11-03T10:15:00Z"), november);
    EXPECT_EQ(time_of("2026-11-03T11:15:00.25+01:00"), november);
    EXPECT_EQ(time_of("2026-11-03T04:45:00-0530"), november);
    EXPECT_EQ(time_of("1793700900"), november);
    for (const auto *bad :
         {"2026-11-03T10:15:00", "2026-02-31T10:15:00Z", "2026-11-03", "yesterday", "", "-5"})
        EXPECT_FALSE(time_of(bad)) << bad;
}

TEST(Pscheduler, AResultAloneNeedsItsEndsAndItsTime) {
    const auto record = model::parse_json(data("pscheduler_rtt.json"));
    ASSERT_TRUE(record);
    const auto result = model::print_json((*record)["result"]);
    EXPECT_EQ(refusal(result, hosts),
              "file: it does not say between whom it was measured; give --from SITE --to SITE");
    EXPECT_EQ(refusal(result, between), "file: it does not say when it was measured; give --at TIME");
    EXPECT_EQ(refusal(result, {.from = "s1", .to = "s2", .at = november}), "taken");
    EXPECT_EQ(refusal(data("pscheduler_failed.json"), hosts),
              "file: the test did not succeed: Process took too long to run.");
    EXPECT_EQ(refusal(data("pscheduler_rtt.json"), {}),
              "file: host 'dtn.s1.example.org': of which site? give --site 'dtn.s1.example.org=SITE', or "
              "--from SITE --to "
              "SITE");
}

TEST(Table, AListAndAMatrixAndToml) {
    const auto list = import({"list.csv"}, {});
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[0].gbps, 9.4);
    EXPECT_EQ(list[0].at, november);
    EXPECT_EQ(list[2].gbps, 0) << "a dash is not measured";
    EXPECT_EQ(list[2].rtt_ms, 80);
    EXPECT_EQ(list[2].at, november);
    const auto matrix = import({"matrix.csv"}, {.at = november});
    EXPECT_EQ(matrix.size(), 5u + 6u);
    EXPECT_EQ(matrix[2].from + matrix[2].to, "s2s1") << "row to column";
    EXPECT_EQ(matrix[2].gbps, 8.9);
    const auto toml = import({"links.toml"}, {});
    ASSERT_EQ(toml.size(), 2u);
    EXPECT_EQ(toml[1].from, "s2");
    EXPECT_EQ(toml[1].rtt_ms, 25);
    EXPECT_EQ(toml[1].at, november);
}

TEST(Table, WhatIsWrongIsNamedWithItsLine) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"from,to,gbps\ns1,s2\n", "file:2: 2 cells; the header has 3"},
        {"from,to,speed\n",
         "file:1: column 'speed': expected from, to, gbps, rtt_ms and at, or a matrix (gbps,SITE,SITE,…)"},
        {"from,gbps\n", "file:1: column to is missing"},
        {"from,to,gbps\ns1,s2,fast\n", "file:2: gbps: 'fast' is not a number"},
        {"from,to,gbps\ns1,s2,3\n", "file:2: it does not say when it was measured; give --at TIME"},
        {"from,to,gbps,at\ns1,s2,3,yesterday\n",
         "file:2: at: 'yesterday': expected YYYY-MM-DDTHH:MM:SSZ or seconds since the epoch"},
        {"from,to,gbps,at\n,s2,3,5\n", "file:2: from and to must name sites"},
        {"[[link]]\nfrom = \"s1\"\nspeed = 3\n",
         "file:3:1: unknown key 'speed'; known: from, to, bandwidth_gbps, rtt_ms, both, at"},
        {"", "file: no measurement in it"},
    };
    for (const auto &[text, expected] : cases)
        EXPECT_EQ(refusal(text, {}), expected) << text;
}

TEST(Import, NoLinkIsLikeThat) {
    for (const auto *value : {"0", "-3", "10000", "nan", "inf", "1e400"}) {
        const auto said = refusal(std::string("from,to,gbps,at\ns1,s2,") + value + ",5\n");
        EXPECT_TRUE(said.starts_with("file:2: ")) << value << ": " << said;
    }
    auto json = model::parse_json(data("iperf3_tcp.json"));
    ASSERT_TRUE(json);
    for (const double bits : {0.0, -1.0, 1e13}) {
        (*json)["end"]["sum_received"]["bits_per_second"] = bits;
        const auto said = refusal(model::print_json(*json));
        EXPECT_NE(said.find("no link is like that"), std::string::npos) << said;
    }
}

TEST(Import, AFileThatIsTooLargeIsNotRead) {
    EXPECT_EQ(refusal(std::string(largest_import + 1, ' ')), "file: 16777217 bytes; at most 16777216");
}

// Bytes changed, cut and doubled: a refusal or samples that are plausible, never anything else.
TEST(Import, NoBytesDoHarm) {
    std::mt19937 random(7);
    const auto any = [&](std::size_t below) {
        return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
    };
    for (const auto *name : {"iperf3_bidir.json", "pscheduler_latency.json", "pscheduler_rtt.json",
                             "list.csv", "matrix.csv", "links.toml"}) {
        const auto whole = data(name);
        for (int round = 0; round < 300; ++round) {
            auto text = whole;
            for (std::size_t edits = 1 + any(5); edits > 0 && !text.empty(); --edits) {
                const auto place = any(text.size());
                switch (any(4)) {
                case 0:
                    text[place] = static_cast<char>(any(256));
                    break;
                case 1:
                    text.erase(place, 1 + any(40));
                    break;
                case 2:
                    text.insert(place, text.substr(any(text.size()), 30));
                    break;
                default:
                    text[place] = "0123456789-.e{}[],\""[any(19)];
                }
            }
            Importer importer(hosts);
            if (const auto added = importer.add(name, text); !added) {
                EXPECT_FALSE(added.error().what.empty());
                continue;
            }
            const auto samples = importer.samples();
            for (const auto &sample : samples ? *samples : std::vector<Sample>{})
                EXPECT_TRUE(plausible(sample)) << text;
        }
    }
}

} // namespace
} // namespace spider::probe
