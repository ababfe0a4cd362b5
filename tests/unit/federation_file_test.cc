// SPDX-License-Identifier: GPL-3.0-or-later
// The federation file.
#include "federation/federation.h"
#include "model/fields.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace spider::federation {
namespace {

Result<Federation> read(std::string_view text) {
    const auto json = model::parse_json(text);
    EXPECT_TRUE(json) << text;
    return read_federation(*json);
}

std::string trouble(std::string_view text) {
    const auto federation = read(text);
    return federation ? "no trouble" : federation.error().what;
}

// Two sites linked both ways at 10 Gbit/s and 100 ms, and more keys.
std::string pair_with(const std::string &keys, const std::string &of_a = "") {
    return R"({"sites":[{"name":"a")" + of_a + R"(},{"name":"b"}],"bw_gbps":[[null,10],[10,null]],
        "rtt_ms":[[0,100],[100,0]])" +
           keys + "}";
}

TEST(FederationFile, PublishedTopologiesLoadAsTheyAre) {
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(SF_TEST_DATA "/topologies")) {
        const auto json = model::read_json_file(entry.path());
        ASSERT_TRUE(json) << json.error().what;
        const auto federation = read_federation(*json);
        ASSERT_TRUE(federation) << entry.path() << ": " << federation.error().what;
        EXPECT_GE(federation->sites().size(), 2u) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 10);
}

TEST(FederationFile, DelayInsideASiteIsOneWayAndRttIsBoth) {
    const auto json = model::read_json_file(SF_TEST_DATA "/topologies/dtfm_case4_regional_us.json");
    const auto federation = read_federation(*json);
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->site("Virginia")->intra_gbps, 2);
    EXPECT_EQ(federation->site("Virginia")->intra_rtt_ms, 10);
    const auto given = read(pair_with("", R"(,"intra_gbps":400,"intra_rtt_ms":0.02,"intra_delay_ms":7)"));
    ASSERT_TRUE(given) << given.error().what;
    EXPECT_EQ(given->site("a")->intra_rtt_ms, 0.02);
    EXPECT_EQ(given->site("b")->intra_gbps, 0);
}

TEST(FederationFile, DirectionAndEmptyCellsOfTheMatricesAreKept) {
    const auto json = model::read_json_file(SF_TEST_DATA "/topologies/fluidstack_3region.json");
    const auto federation = read_federation(*json);
    ASSERT_TRUE(federation);
    const auto east = federation->site("East")->id, west = federation->site("West")->id;
    EXPECT_EQ(federation->link(east, west)->bandwidth_gbps, 0.15);
    EXPECT_EQ(federation->link(west, east)->bandwidth_gbps, 1.17);
    EXPECT_EQ(federation->link(west, east)->rtt_ms, 60.2);
    EXPECT_FALSE(federation->link(east, east));
    const auto sparse = read(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[0,null],[2,0]],
                                 "rtt_ms":[[0,5],[5,0]]})");
    ASSERT_TRUE(sparse) << sparse.error().what;
    EXPECT_FALSE(sparse->link(SiteId{0}, SiteId{1}));
    EXPECT_TRUE(sparse->link(SiteId{1}, SiteId{0}));
}

TEST(FederationFile, GpusAloneMeanEightPerNode) {
    const auto federation = read(R"({"sites":[{"name":"a","gpu":"H100","gpus":20},
        {"name":"b","gpu":"V100-16","nodes":3,"gpus_per_node":4,"free_nodes":2,"free_gpus_per_node":1}]})");
    ASSERT_TRUE(federation) << federation.error().what;
    const auto &a = federation->sites()[0].classes;
    ASSERT_EQ(a.size(), 2u);
    EXPECT_EQ(a[0].nodes, 2);
    EXPECT_EQ(a[0].gpus_per_node, 8);
    EXPECT_EQ(a[1].nodes, 1);
    EXPECT_EQ(a[1].free_gpus_per_node, 4);
    const auto &b = federation->sites()[1].classes[0];
    EXPECT_EQ(b.gpu.memory, 16e9);
    EXPECT_EQ(b.free_nodes, 2);
    EXPECT_EQ(b.free_gpus_per_node, 1);
}

TEST(FederationFile, WhatIsPrintedReadsBackTheSame) {
    for (const auto *name : {"skyplane_8", "fluidstack_3region", "ibmcloud_rtt"}) {
        const auto json = model::read_json_file(SF_TEST_DATA "/topologies/" + std::string(name) + ".json");
        const auto once = read_federation(*json);
        ASSERT_TRUE(once);
        const auto twice = read(model::print_json(to_json(*once)));
        ASSERT_TRUE(twice) << twice.error().what;
        EXPECT_EQ(twice->sites(), once->sites());
        EXPECT_EQ(to_json(*twice), to_json(*once));
    }
}

TEST(FederationFile, EveryMistakeIsOneLineWithItsPlace) {
    EXPECT_EQ(trouble("[]"), "federation: expected an object");
    EXPECT_EQ(trouble("{}"), "federation: sites: missing; expected a list");
    EXPECT_EQ(trouble(R"({"sites":[{}]})"), "sites[0]: name: missing; expected a text");
    EXPECT_EQ(trouble(R"({"sites":[3]})"), "sites[0]: expected an object");
    EXPECT_EQ(trouble(R"({"sites":[{"name":"a","gpu":"h100","nodes":-1,"gpus_per_node":8}]})"),
              "sites[0] a: nodes: expected a whole number between 0 and 1000000");
    EXPECT_EQ(trouble(R"({"sites":[{"name":"a","nodes":1,"gpus_per_node":8}]})"),
              "sites[0] a: gpu: missing; expected a text");
    EXPECT_EQ(
        trouble(R"({"sites":[{"name":"a","gpu":"h900","gpus":8}]})")
            .find(
                "sites[0] a: gpu: unknown type 'h900'; give peak_flops and memory_bytes, or one of: gb300, "),
        0u);
    EXPECT_EQ(trouble(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[1]],"rtt_ms":[[1]]})"),
              "bw_gbps: expected 2 rows, one per site");
    EXPECT_EQ(
        trouble(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[0,1],[1,0]],"rtt_ms":[[0,1],[1]]})"),
        "rtt_ms[1]: expected 2 numbers, one per site");
    EXPECT_EQ(
        trouble(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[0,"x"],[1,0]],"rtt_ms":[[0,1],[1,0]]})"),
        "bw_gbps[0]: expected numbers or null");
    EXPECT_EQ(
        trouble(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[0,-5],[1,0]],"rtt_ms":[[0,1],[1,0]]})"),
        "link a -> b: bandwidth must be a number above 0 Gbit/s");
}

TEST(FederationFile, StreamsAndWindowsAreForAllLinksOrForEach) {
    const auto all = read(pair_with(R"(,"streams":8,"window_bytes":1000000)"));
    ASSERT_TRUE(all) << all.error().what;
    EXPECT_DOUBLE_EQ(all->link(SiteId{0}, SiteId{1})->bandwidth_gbps, 0.64);
    EXPECT_DOUBLE_EQ(all->link(SiteId{1}, SiteId{0})->bandwidth_gbps, 0.64);
    const auto each = read(pair_with(R"(,"streams":[[null,8],[null,null]],"window_bytes":1000000)"));
    ASSERT_TRUE(each) << each.error().what;
    EXPECT_DOUBLE_EQ(each->link(SiteId{0}, SiteId{1})->bandwidth_gbps, 0.64);
    EXPECT_DOUBLE_EQ(each->link(SiteId{1}, SiteId{0})->bandwidth_gbps, 10);
}

TEST(FederationFile, GatewaysSharedLinksReservationsAndTransitAreRead) {
    const auto federation = read(pair_with(R"(,"shared":[{"name":"sea","gbps":5,"pairs":[["a","b"]]}],
        "reserved":[{"from":"a","to":"b","gbps":1}])",
                                           R"(,"uplink_gbps":8,"downlink_gbps":7,"transit":true)"));
    ASSERT_TRUE(federation) << federation.error().what;
    EXPECT_EQ(federation->site("a")->uplink_gbps, 8);
    EXPECT_EQ(federation->site("a")->downlink_gbps, 7);
    EXPECT_TRUE(federation->site("a")->transit);
    EXPECT_FALSE(federation->site("b")->transit);
    EXPECT_DOUBLE_EQ(federation->link(SiteId{0}, SiteId{1})->bandwidth_gbps, 4);
    EXPECT_DOUBLE_EQ(federation->link(SiteId{1}, SiteId{0})->bandwidth_gbps, 7);
    EXPECT_EQ(federation->resources(SiteId{0}, SiteId{1}).size(), 3u);
}

TEST(FederationFile, NodesThatComeFreeLaterAreRead) {
    const auto federation =
        read(R"({"sites":[{"name":"a","gpu":"h100","nodes":4,"gpus_per_node":8,"free_nodes":1,
        "later":[{"after_seconds":60,"free_nodes":3},{"after_seconds":3600.5,"free_nodes":4}]}]})");
    ASSERT_TRUE(federation) << federation.error().what;
    EXPECT_EQ(federation->sites()[0].classes[0].later, (std::vector<FreeLater>{{60, 3}, {3600.5, 4}}));
}

TEST(FederationFile, ThePrintedFormKeepsAllThatTheNetworkIs) {
    const auto once = read(R"({"sites":[
        {"name":"a","uplink_gbps":8,"transit":true,"intra_gbps":400,"intra_rtt_ms":0.02,"gpu":"h100","nodes":2,
         "gpus_per_node":8,"free_nodes":0,"later":[{"after_seconds":60,"free_nodes":2}]},
        {"name":"b","downlink_gbps":0.5,"routable":true},{"name":"c","state":"DRAIN"}],
        "bw_gbps":[[null,10,2],[10,null,null],[0.1,null,null]],"rtt_ms":[[0,100,1],[100,0,null],[60.2,null,0]],
        "streams":[[null,8,16],[null,null,null],[null,null,null]],"window_bytes":1048576,
        "shared":[{"name":"sea","gbps":5,"pairs":[["a","b"],["a","c"]]},{"name":"dry","gbps":1,"pairs":[]}],
        "reserved":[{"from":"b","to":"c","gbps":0.25}]})");
    ASSERT_TRUE(once) << once.error().what;
    const auto twice = read(model::print_json(to_json(*once)));
    ASSERT_TRUE(twice) << twice.error().what;
    EXPECT_EQ(twice->sites(), once->sites());
    EXPECT_EQ(twice->links(), once->links());
    EXPECT_EQ(twice->network(), once->network());
    EXPECT_EQ(to_json(*twice), to_json(*once));
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            EXPECT_EQ(twice->link(SiteId{i}, SiteId{j}), once->link(SiteId{i}, SiteId{j})) << i << j;
}

TEST(FederationFile, SitesWithoutALinkAreAFederation) {
    const auto federation = read(R"({"sites":[{"name":"a"},{"name":"b"}],"bw_gbps":[[null,null],[null,null]],
        "rtt_ms":[[null,null],[null,null]],"reserved":[{"from":"a","to":"b","gbps":1}]})");
    ASSERT_TRUE(federation) << federation.error().what;
    EXPECT_FALSE(federation->link(SiteId{0}, SiteId{1}));
}

TEST(FederationFile, EveryMistakeInTheNetworkIsOneLineWithItsPlace) {
    const auto network = [](const std::string &keys) { return trouble(pair_with("," + keys)); };
    EXPECT_EQ(network(R"("streams":0)"),
              "streams: expected a whole number between 1 and 65536, or a matrix of them");
    EXPECT_EQ(network(R"("streams":[[0,1],[1.5,0]])"),
              "streams[1][0]: expected a whole number between 1 and 65536");
    EXPECT_EQ(network(R"("window_bytes":[[0,1]])"), "window_bytes: expected 2 rows, one per site");
    EXPECT_EQ(network(R"("window_bytes":"64k")"),
              "window_bytes: expected a whole number between 1 and 1073741824, or a matrix of them");
    EXPECT_EQ(network(R"("shared":7)"), "federation: shared: expected a list");
    EXPECT_EQ(network(R"("shared":[{"gbps":1,"pairs":[]}])"), "shared[0]: name: missing; expected a text");
    EXPECT_EQ(network(R"("shared":[{"name":"x","gbps":0,"pairs":[]}])"),
              "shared[0]: gbps: expected a number of at least 1e-06");
    EXPECT_EQ(network(R"("shared":[{"name":"x","gbps":1,"pairs":[["a","b"],["a"]]}])"),
              "shared[0]: pairs[1]: expected the names of two sites");
    EXPECT_EQ(network(R"("shared":[{"name":"x","gbps":1,"pairs":[["a","z"]]}])"),
              "shared[0]: pairs[0]: no site has the name 'z'");
    EXPECT_EQ(network(R"("shared":[{"name":"x","gbps":1,"pairs":[[1,"a"]]}])"),
              "shared[0]: pairs[0]: expected the name of a site");
    EXPECT_EQ(network(R"("shared":[{"name":"x","gbps":1,"pairs":[["a","a"]]}])"),
              "shared link x: pair a -> a: from a site to itself");
    EXPECT_EQ(network(R"("reserved":[{"from":"a","to":"z","gbps":1}])"),
              "reserved[0]: to: no site has the name 'z'");
    EXPECT_EQ(network(R"("reserved":[{"from":"a","to":"b"}])"),
              "reserved[0]: gbps: missing; expected a number of at least 0");
    const auto site = [](const std::string &keys) { return trouble(pair_with("", "," + keys)); };
    EXPECT_EQ(site(R"("uplink_gbps":0)"), "sites[0] a: uplink_gbps: expected a number of at least 1e-06");
    EXPECT_EQ(site(R"("downlink_gbps":"fast")"),
              "sites[0] a: downlink_gbps: expected a number of at least 1e-06");
    EXPECT_EQ(site(R"("transit":1)"), "sites[0] a: transit: expected true or false");
    EXPECT_EQ(site(R"("intra_delay_ms":-1)"), "sites[0] a: intra_delay_ms: expected a number of at least 0");
}

TEST(FederationFile, AMistakeInWhatComesFreeLaterIsOneLineWithItsPlace) {
    const auto later = [](const std::string &list) {
        return trouble(pair_with("", R"(,"gpu":"h100","nodes":4,"gpus_per_node":8,"later":)" + list));
    };
    EXPECT_EQ(later(R"([{"after_seconds":5,"free_nodes":5}])"),
              "sites[0] a: later[0]: free_nodes: expected a whole number between 0 and 4");
    EXPECT_EQ(later(R"([{"after_seconds":5,"free_nodes":1},{"after_seconds":5,"free_nodes":2}])"),
              "sites[0] a: later[1]: after_seconds: expected more than the 5 s before it");
    EXPECT_EQ(later(R"([{"after_seconds":-5,"free_nodes":1}])"),
              "sites[0] a: later[0]: after_seconds: expected a number of at least 0");
    EXPECT_EQ(later("{}"), "sites[0] a: later: expected a list");
    EXPECT_EQ(trouble(pair_with("", R"(,"gpu":"h100","gpus":32,"later":[])")),
              "sites[0] a: later: needs nodes and gpus_per_node instead of gpus");
}

TEST(FederationFile, WhatIsNoFederationOrTooLargeSaysSo) {
    EXPECT_EQ(trouble(R"({"name":"link-classes","classes":[{"name":"campus","gbps":800}]})"),
              "federation: sites: missing; expected a list");
    std::string many = R"({"sites":[{"name":"0"})";
    for (int i = 1; i <= 4096; ++i)
        many += R"(,{"name":")" + std::to_string(i) + R"("})";
    EXPECT_EQ(trouble(many + "]}"), "federation: sites: more than 4096");
    EXPECT_EQ(trouble(R"({"sites":[{"name":"a"},{"name":"a"}]})"), "two sites have the name a");
}

} // namespace
} // namespace spider::federation
