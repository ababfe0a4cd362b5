// SPDX-License-Identifier: GPL-3.0-or-later
// What a task gets: its rank, the interfaces, the trainer's files; and the look at the network before that.
#include "spank_part.h"

#include "spank/files.h"
#include "spank/reach.h"
#include "util/fd.h"
#include "util/process.h"
#include "util/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

namespace spider::spank {
namespace {

// Against an enumeration, not against the formula: tensor fastest, then data, then pipeline.
TEST(Rank, OfAllPartsArePermutedInTheTrainersOrder) {
    const std::vector<std::string> parts{"1.0,0.1/2.1", "0.0/2.0/1.1"}; // of 3 stages by 2 members
    std::map<std::string, std::string> rank_at;                         // "stage dp tp" -> rank
    for (const auto &slots : parts) {
        auto part = a_part();
        part[carrier::slots] = slots;
        part[carrier::world] = "12";
        part[carrier::pp] = "3";
        part[carrier::layers] = "0-0,1-1,2-9";
        part[carrier::depths] = "3,2,1";
        part[carrier::node_ranks] = slots.ends_with("1.1") ? "0,3,2" : "1,4";
        const auto carriers = read_carriers(in(part)).value();
        for (std::size_t node = 0; node < carriers.nodes.size(); ++node)
            for (int local = 0; local < carriers.tasks_on(node); ++local) {
                auto task = environment_of(
                    carriers,
                    {"n" + std::to_string(node), {}, local, carriers.tasks_on(node), carriers.tasks(), ""});
                EXPECT_EQ(task["LOCAL_RANK"], std::to_string(local));
                EXPECT_EQ(task["WORLD_SIZE"], "12");
                rank_at[task["SPIDERFLOW_STAGE"] + task["SPIDERFLOW_DP_RANK"] + task["SPIDERFLOW_TP_RANK"]] =
                    task["RANK"];
            }
    }
    int next = 0;
    for (const char *stage : {"0", "1", "2"})
        for (const char *dp : {"0", "1"})
            for (const char *tp : {"0", "1"})
                EXPECT_EQ(rank_at[std::string(stage) + dp + tp], std::to_string(next++)) << stage << dp << tp;
    EXPECT_EQ(rank_at.size(), 12u);
}

TEST(Rank, ComesWithItsStageLayersAndInterface) {
    const auto part = a_part();
    auto task = environment_of(read_carriers(in(part)).value(), {"n1", {}, 1, 2, 6, "wan0"});
    EXPECT_EQ(task["SPIDERFLOW_STAGE"], "0");
    EXPECT_EQ(task["SPIDERFLOW_FIRST_LAYER"], "0");
    EXPECT_EQ(task["SPIDERFLOW_LAST_LAYER"], "5");
    EXPECT_EQ(task["SPIDERFLOW_NLAYERS"], "8");
    EXPECT_EQ(task["SPIDERFLOW_LAYERS"], "0-5,6-7");
    EXPECT_EQ(task["NODE_RANK"], "1");
    EXPECT_EQ(task["SPIDERFLOW_DEPTH"], "4");
    EXPECT_EQ(task["SPIDERFLOW_DEPTHS"], "4,1");
    EXPECT_EQ(task["SPIDERFLOW_MICROBATCHES"], "8");
    EXPECT_EQ(task["GLOO_SOCKET_IFNAME"], "wan0");
    EXPECT_EQ(task["NCCL_SOCKET_IFNAME"], "=wan0");
    EXPECT_FALSE(task.contains("PET_NNODES")); // more than one task on a node
}

// pytorch#137402: torchrun's ranks follow the nodes only with a static rendezvous.
TEST(Rank, OneTaskPerNodeGetsTorchrunsStaticRendezvous) {
    std::string node_ranks;
    for (const int base : {0, 2}) {
        auto part = a_part();
        part[carrier::world] = "4";
        part[carrier::tp] = "1";
        part[carrier::nnodes] = "4";
        part[carrier::node_ranks] = base == 0 ? "0,1" : "2,3";
        part[carrier::slots] = base == 0 ? "0.0/0.1" : "1.0/1.1";
        for (const char *node : {"n0", "n1"}) {
            auto task = environment_of(read_carriers(in(part)).value(), {node, {}, 0, 1, 2, ""});
            EXPECT_EQ(task["PET_NNODES"], "4");
            EXPECT_EQ(task["PET_RDZV_BACKEND"], "static");
            EXPECT_EQ(task["PET_MASTER_ADDR"], "10.0.0.1");
            EXPECT_FALSE(task.contains("GLOO_SOCKET_IFNAME"));
            node_ranks += task["PET_NODE_RANK"];
        }
    }
    EXPECT_EQ(node_ranks, "0123");
}

// torchrun gives its workers the ranks; what would be wrong for some of them is not set.
TEST(Rank, ATaskForANodeOfSeveralGpusHasNoRankOfItsOwn) {
    auto part = a_part();
    part[carrier::launcher] = "torchrun";
    auto task = environment_of(read_carriers(in(part)).value(), {"n0", {}, 0, 1, 2, "wan0"});
    EXPECT_EQ(task["PET_NNODES"], "3");
    EXPECT_EQ(task["PET_NODE_RANK"], "2");
    EXPECT_EQ(task["PET_NPROC_PER_NODE"], "4");
    EXPECT_EQ(task["SPIDERFLOW_DEPTHS"], "4,1");
    EXPECT_EQ(task["GLOO_SOCKET_IFNAME"], "wan0");
    for (const char *name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SPIDERFLOW_STAGE", "SPIDERFLOW_DEPTH"})
        EXPECT_FALSE(task.contains(name)) << name;
}

TEST(Rank, TheMasterIsTheTaskOfRankZero) {
    auto part = a_part();
    part[carrier::slots] = "1.0,0.0/0.1", part[carrier::node_ranks] = "0,1";
    auto carriers = read_carriers(in(part)).value();
    const auto at = [&](const char *node, int local) {
        return is_master(carriers, {node, {"n0", "n1"}, local, 4, 6, ""});
    };
    EXPECT_TRUE(at("n0", 2));
    for (const int local : {0, 1, 3})
        EXPECT_FALSE(at("n0", local)) << local;
    EXPECT_FALSE(at("n1", 0));
    carriers.per_node = true;
    EXPECT_TRUE(at("n0", 0));
}

TEST(Interface, OfTheSiteGoesToNcclAsItIsAndToGlooAsOneName) {
    auto part = a_part();
    const auto names = [&](const char *wanted) {
        part[carrier::interface] = wanted;
        auto task = environment_of(read_carriers(in(part)).value(), {"n1", {}, 1, 2, 6, "eth0"});
        return task["NCCL_SOCKET_IFNAME"] + " " + task["GLOO_SOCKET_IFNAME"];
    };
    EXPECT_EQ(names(""), "=eth0 eth0");
    EXPECT_EQ(names("ib0"), "ib0 ib0");
    EXPECT_EQ(names("=ib0"), "=ib0 ib0");
    EXPECT_EQ(names("^lo,docker"), "^lo,docker eth0"); // aws-do-eks#51: gloo takes no such list
    EXPECT_EQ(names("eth,ib"), "eth,ib eth0");
}

TEST(Devices, AreCountedInEveryVendorsVariable) {
    const auto count = [](const char *name, const char *list) { return visible_devices(in({{name, list}})); };
    EXPECT_EQ(count("CUDA_VISIBLE_DEVICES", "0"), 1);
    EXPECT_EQ(count("CUDA_VISIBLE_DEVICES", "0,1,2"), 3);
    EXPECT_EQ(count("CUDA_VISIBLE_DEVICES", "MIG-b4a6e1d2-3f1c-5d0a-9a6d-1a2b3c4d5e6f"), 1);
    EXPECT_EQ(count("ROCR_VISIBLE_DEVICES", "GPU-1,GPU-2"), 2);
    EXPECT_EQ(count("HIP_VISIBLE_DEVICES", "3"), 1);
    EXPECT_EQ(count("ZE_AFFINITY_MASK", "0.0"), 1);
    EXPECT_EQ(count("CUDA_VISIBLE_DEVICES", ""), std::nullopt);
    EXPECT_EQ(visible_devices(in({})), std::nullopt);
}

// mace#435: the only GPU that a task sees is its device 0.
TEST(Devices, LocalRankIsZeroInASingleGpuViewOnlyWhereItIsAskedFor) {
    auto part = a_part();
    Place place{"n0", {}, 3, 4, 6, ""};
    EXPECT_EQ(environment_of(read_carriers(in(part)).value(), place)["LOCAL_RANK"], "3");
    place.single_gpu = true;
    EXPECT_EQ(environment_of(read_carriers(in(part)).value(), place)["LOCAL_RANK"], "3");
    part[carrier::single_gpu_view] = "1";
    auto task = environment_of(read_carriers(in(part)).value(), place);
    EXPECT_EQ(task["LOCAL_RANK"], "0");
    EXPECT_EQ(task["LOCAL_WORLD_SIZE"], "4");
}

std::string contents(const std::string &path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "re"), std::fclose);
    if (!file) return "(no file " + path + ")";
    std::string text(1000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

TEST(Files, AreWhereTheArgumentsSayAlsoForAChild) {
    auto part = a_part();
    part[carrier::micro_batches] = "2";
    part[carrier::arguments] = "--a @one.yaml@ --schedule @schedule.csv@ --again=@one.yaml@";
    part["SLURM_SPIDERFLOW_FILE_1"] = "plan.json {}", part["SLURM_SPIDERFLOW_FILE_2"] = "one.yaml pp:%0A";
    const auto list = trainer_environment(read_carriers(in(part)).value()).value();
    const std::map<std::string, std::string> environment(list.begin(), list.end());
    EXPECT_EQ(contents(environment.at("SPIDERFLOW_PLAN_FILE")), "{}");
    const auto words = util::split(environment.at("SPIDERFLOW_TRAINER_ARGS"), ' ');
    ASSERT_EQ(words.size(), 5u);
    EXPECT_EQ(contents(words[1]), "pp:\n");
    EXPECT_EQ(words[4], "--again=" + words[1]);
    EXPECT_EQ(contents(words[3]), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"); // depths 4,1 of two
    const auto child = util::run({.argv = {"/bin/cat", words[1]}}); // closes every descriptor before it execs
    ASSERT_TRUE(child.ok()) << child.error().what;
    EXPECT_EQ(child->out, "pp:\n");
}

TEST(Reach, ARefusedConnectionIsAWayAndNoRouteIsNone) {
    EXPECT_TRUE(reaches("127.0.0.1", 1, 2)) << "nobody listens on port 1, and the answer comes";
    EXPECT_TRUE(reaches("::1", 1, 2));
    const auto none = reaches("fe80::1", 1, 0.2); // of no interface: nothing is sent
    ASSERT_FALSE(none);
    EXPECT_FALSE(none.error().what.empty());
    EXPECT_EQ(numeric_address("fd00::1").value(), "fd00::1");
    EXPECT_EQ(numeric_address("localhost").value().substr(0, 3) == "127" ||
                  numeric_address("localhost").value() == "::1",
              true);
    EXPECT_FALSE(numeric_address(std::string(300, 'a'))) << "longer than any name";
}

TEST(Reach, APortIsFreeUntilSomebodyListens) {
    const util::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr *>(&own), sizeof own), 0);
    socklen_t length = sizeof own;
    ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own), &length), 0);
    ASSERT_EQ(::listen(socket.get(), 1), 0);
    EXPECT_FALSE(is_free(ntohs(own.sin_port)));
}

} // namespace
} // namespace spider::spank
