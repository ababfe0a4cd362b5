// SPDX-License-Identifier: GPL-3.0-or-later
#include "federation/federation.h"
#include "model/fields.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

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

Site named(const std::string &name) { return {.name = name}; }

TEST(Federation, FindsSitesByNameAndLinksByDirection) {
    const auto federation = Federation::make({named("a"), named("b")}, {{SiteId{0}, SiteId{1}, 10, 20}});
    ASSERT_TRUE(federation);
    EXPECT_EQ(federation->site("b")->id, SiteId{1});
    EXPECT_EQ(federation->site("c"), nullptr);
    EXPECT_EQ(federation->link(SiteId{0}, SiteId{1})->bandwidth_gbps, 10);
    EXPECT_FALSE(federation->link(SiteId{1}, SiteId{0}));
    EXPECT_FALSE(federation->link(SiteId{0}, SiteId{7}));
    EXPECT_FALSE(federation->link(SiteId{-1}, SiteId{0}));
}

TEST(Federation, SenselessLinksAndNamesAreRefusedByName) {
    const auto what = [](const Link &link) {
        return Federation::make({named("a"), named("b")}, {link}).error().what;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(what({SiteId{0}, SiteId{2}, 1, 1}), "a link names a site that does not exist");
    EXPECT_EQ(what({SiteId{0}, SiteId{0}, 1, 1}), "link a -> a: from a site to itself");
    for (const double bad : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()})
        EXPECT_EQ(what({SiteId{0}, SiteId{1}, bad, 1}),
                  "link a -> b: bandwidth must be a number above 0 Gbit/s");
    for (const double bad : {-1.0, nan})
        EXPECT_EQ(what({SiteId{1}, SiteId{0}, 1, bad}), "link b -> a: RTT must be a number of at least 0 ms");
    EXPECT_EQ(Federation::make({named("a"), named("a")}, {}).error().what, "two sites have the name a");
    EXPECT_EQ(Federation::make({named("")}, {}).error().what, "a site has no name");
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

} // namespace
} // namespace spider::federation
