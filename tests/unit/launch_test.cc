// SPDX-License-Identifier: GPL-3.0-or-later
#include "launch/environment.h"
#include "launch/part_script.h"
#include "util/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

namespace spider::launch {
namespace {

namespace fs = std::filesystem;

// Two stages of two at s1 (two nodes), one stage of two at s2 (one node), TP 2.
Plan example() {
    Plan plan;
    plan.outcome = Outcome::planned;
    plan.tp = 2, plan.pp = 3, plan.dp = 2;
    plan.stages = {{.first_layer = 0, .last_layer = 3},
                   {.first_layer = 4, .last_layer = 4},
                   {.first_layer = 5, .last_layer = 7}};
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}}}, {"s2", "a100", {{{2, 0}, {2, 1}}}}};
    return plan;
}

TEST(Carriers, SayAllThatTheTasksOfAPartMustKnow) {
    auto plan = example();
    plan.trainer = Trainer::deepspeed, plan.micro_batches = 5, plan.sequence = 64;
    plan.stages[0].depth = 3, plan.stages[1].depth = 2;
    auto list = carriers(plan, plan.parts[0], "s1-17", 1);
    ASSERT_EQ(list.back().first, "SLURM_SPIDERFLOW_FILE_1");
    EXPECT_TRUE(list.back().second.starts_with("plan.json {"));
    list.pop_back();
    const Environment expected{
        {"SLURM_SPIDERFLOW_JOB", "s1-17"},
        {"SLURM_SPIDERFLOW_ATTEMPT", "1"},
        {"SLURM_SPIDERFLOW_SITE", "s1"},
        {"SLURM_SPIDERFLOW_WORLD", "12"},
        {"SLURM_SPIDERFLOW_TP", "2"},
        {"SLURM_SPIDERFLOW_PP", "3"},
        {"SLURM_SPIDERFLOW_DP", "2"},
        {"SLURM_SPIDERFLOW_SLOTS", "0.0,0.1/1.0,1.1"},
        {"SLURM_SPIDERFLOW_LAYERS", "0-3,4-4,5-7"},
        {"SLURM_SPIDERFLOW_DEPTHS", "3,2,1"},
        {"SLURM_SPIDERFLOW_MICROBATCH", "1"},
        {"SLURM_SPIDERFLOW_MICROBATCHES", "5"},
        {"SLURM_SPIDERFLOW_RECOMPUTE", "none"},
        {"SLURM_SPIDERFLOW_NODE_RANKS", "0,1"},
        {"SLURM_SPIDERFLOW_NNODES", "3"},
        {"SLURM_SPIDERFLOW_MASTER_SITE", "s1"},
        {"SLURM_SPIDERFLOW_TRAINER", "deepspeed"},
        {"SLURM_SPIDERFLOW_LAUNCHER", "srun"},
        {"SLURM_SPIDERFLOW_ARGS", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 "
                                  "--micro-batch-size 1 --global-batch-size 10 --seq-length 64"},
    };
    EXPECT_EQ(list, expected);
}

TEST(Carriers, OfAnotherPartHaveItsOwnNodes) {
    const auto plan = example();
    const auto list = carriers(plan, plan.parts[1], "s1-17", 3);
    const std::map<std::string, std::string> values(list.begin(), list.end());
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_NODE_RANKS"), "2");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_NNODES"), "3");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_SLOTS"), "2.0,2.1");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_SITE"), "s2");
    EXPECT_EQ(values.at("SLURM_SPIDERFLOW_ATTEMPT"), "3");
}

TEST(Size, CountsTasksPerGpuOnTheFullestNode) {
    auto plan = example();
    auto size = size_of(plan, plan.parts[0]);
    EXPECT_EQ(size.nodes, 2);
    EXPECT_EQ(size.tasks, 8);
    EXPECT_EQ(size.tasks_per_node, 4);
    EXPECT_EQ(size.gpus_per_node, 4);
    plan.parts[0].nodes = {{{0, 0}}, {{0, 1}, {1, 0}, {1, 1}}};
    size = size_of(plan, plan.parts[0]);
    EXPECT_EQ(size.tasks, 8);
    EXPECT_EQ(size.tasks_per_node, 6);
    EXPECT_EQ(size.gpus_per_node, 6);
}

// Run by real interpreters: the guard stops the script without the plugin's variable, and is out of the way
// with it.
class Guard : public testing::Test {
  protected:
    std::string path = testing::TempDir() + "part" + std::to_string(::getpid());
    ~Guard() override { std::filesystem::remove(path); }

    util::Finished run(const std::string &script, const std::string &variable) const {
        auto guarded = guarded_script(script, {"one", "it's \"two\" $HOME", ""}, {.site = "lyra"});
        EXPECT_TRUE(guarded);
        std::ofstream(path) << *guarded;
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        auto done = util::run({.argv = {"/usr/bin/env", variable, path}});
        EXPECT_TRUE(done) << done.error().what;
        return *done;
    }
};

TEST_F(Guard, StopsEveryKindOfScriptWithoutThePlugin) {
    for (const auto *script :
         {"#!/bin/bash\necho ran\n", "#!/bin/sh\necho ran\n", "#!/usr/bin/env bash\necho ran\n",
          "#!/usr/bin/perl\nprint \"ran\\n\";\n", "#!/bin/bash -l\n#SBATCH -t 1\necho ran"}) {
        const auto done = run(script, "X=1");
        EXPECT_EQ(done.status, 78) << script;
        EXPECT_EQ(done.out, "") << script;
        EXPECT_NE(done.err.find("spiderflow: site lyra: the plugin spiderflow did not act"),
                  std::string::npos)
            << done.err;
    }
}

TEST_F(Guard, LetsEveryKindOfScriptRunWithItsArguments) {
    const std::vector<std::pair<std::string, std::string>> scripts{
        {"#!/bin/bash\nprintf '%s|' \"$@\"\n", "one|it's \"two\" $HOME||"},
        {"#!/bin/sh -e\nprintf '%s|' \"$@\"", "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/awk -f\nBEGIN { printf \"%s|%s|%s|\", ARGV[1], ARGV[2], ARGV[3] }",
         "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/perl -w\nprint join('|', @ARGV), '|';\n", "one|it's \"two\" $HOME||"},
        {"#!/usr/bin/env perl\nprint join('|', @ARGV), '|';\nprint "
         "\"SPIDERFLOW_SCRIPT\";\n__END__\nSPIDERFLOW_SCRIPT\n",
         "one|it's \"two\" $HOME||SPIDERFLOW_SCRIPT"},
    };
    for (const auto &[script, expected] : scripts) {
        const auto done = run(script, "SLURM_SPIDERFLOW_MASTER=10.0.0.1/29500");
        EXPECT_EQ(done.status, 0) << script << done.err;
        EXPECT_EQ(done.out, expected) << script;
    }
}

// What travels, unpacked by the real sh, tar and gzip; the archive is of tar(1), too.
class Arriving : public testing::Test {
  protected:
    fs::path home = fs::path(testing::TempDir()) / ("arriving" + std::to_string(::getpid()));
    fs::path there = home / "there"; // the directory at the other site
    Arrival arrival{.site = "lyra"};

    Arriving() {
        fs::create_directories(home / "from/data/.hidden dir");
        fs::create_directories(there);
        write(home / "from/data/a file", "first\n");
        write(home / "from/data/.hidden dir/*", "star\n");
        write(home / "from/run me", "#!/bin/sh\n");
        fs::permissions(home / "from/run me", fs::perms::owner_all);
        fs::create_directories(home / "from/empty");
        pack();
    }
    ~Arriving() override { fs::remove_all(home); }

    static void write(const fs::path &path, const std::string &text) { std::ofstream(path) << text; }
    static std::string read(const fs::path &path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static std::string shell(const std::string &command) {
        const auto done = util::run({.argv = {"/bin/sh", "-c", command}});
        EXPECT_TRUE(done && done->status == 0) << command << (done ? done->err : done.error().what);
        return done ? done->out : "";
    }
    void pack() {
        const auto archive = "'" + (home / "a.tgz").string() + "'";
        shell("tar -C '" + (home / "from").string() + "' -czf " + archive + " .");
        arrival.archive = shell("base64 " + archive);
        arrival.sha256 = shell("sha256sum " + archive).substr(0, 64);
    }
    // As Slurm starts it: in the directory, with the word.
    util::Finished run(const std::string &script, const std::vector<std::string> &before = {}) const {
        const auto text = guarded_script(script, {"one", "t w o"}, arrival);
        EXPECT_TRUE(text);
        const auto path = home / "script";
        write(path, *text);
        fs::permissions(path, fs::perms::all);
        std::vector<std::string> argv{"/usr/bin/env", "-C", there.string(), "SLURM_SPIDERFLOW_MASTER=x/1"};
        argv.insert(argv.end(), before.begin(), before.end());
        argv.push_back(path.string());
        const auto done = util::run({.argv = argv});
        EXPECT_TRUE(done) << done.error().what;
        return *done;
    }
    [[nodiscard]] bool clean(const fs::path &directory) const { // nothing of the unpacking is left
        for (const auto &entry : fs::directory_iterator(directory))
            if (entry.path().filename().string().starts_with(".spiderflow")) return false;
        return true;
    }
};

TEST_F(Arriving, BringsFilesWithTheirNamesAndExecutableBitsBeforeEveryKindOfScript) {
    for (const auto *script :
         {"#!/bin/sh\ncat 'data/a file'; echo \"$2\"\n", "#!/bin/bash -eu\ncat 'data/a file'; echo \"$2\"\n",
          "#!/usr/bin/perl\nprint `cat 'data/a file'`, $ARGV[1], \"\\n\";\n"}) {
        fs::remove_all(there);
        fs::create_directories(there);
        const auto done = run(script);
        EXPECT_EQ(done.status, 0) << script << done.err;
        EXPECT_EQ(done.out, "first\nt w o\n") << script;
        EXPECT_EQ(read(there / "data/.hidden dir/*"), "star\n");
        EXPECT_TRUE(fs::is_directory(there / "empty"));
        EXPECT_EQ(::access((there / "run me").c_str(), X_OK), 0);
        EXPECT_EQ(fs::status(there / "data/a file").permissions() & fs::perms::owner_exec, fs::perms::none);
        EXPECT_TRUE(clean(there));
    }
}

TEST_F(Arriving, LeavesFilesThatAreTheSameUntouchedAndReplacesOthers) {
    fs::create_directories(there / "data");
    write(there / "data/a file", "first\n");
    write(there / "run me", "#!/bin/sh\n"); // the same, but for its executable bit
    write(there / "data/other", "mine\n");
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat((there / "data/a file").c_str(), &before), 0);
    EXPECT_EQ(run("#!/bin/sh\n").status, 0);
    ASSERT_EQ(::stat((there / "data/a file").c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    EXPECT_EQ(::access((there / "run me").c_str(), X_OK), 0);
    EXPECT_EQ(read(there / "data/other"), "mine\n");
    write(there / "data/a file", "second\n");
    EXPECT_EQ(run("#!/bin/sh\n").status, 0);
    EXPECT_EQ(read(there / "data/a file"), "first\n");
}

TEST_F(Arriving, MakesAndEntersTheDirectoryOfTheJob) {
    arrival.directory = "runs/it's s1-17";
    const auto done = run("#!/bin/sh\npwd; cat 'data/a file'\n");
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(done.out, (there / "runs/it's s1-17").string() + "\nfirst\n");
    EXPECT_FALSE(fs::exists(there / "data"));
    arrival.archive.clear();
    EXPECT_EQ(run("#!/usr/bin/perl\nuse Cwd; print getcwd;\n").out, (there / "runs/it's s1-17").string());
}

TEST_F(Arriving, EndsThePartWithOneLineWhenItIsDamaged) {
    arrival.sha256[0] = arrival.sha256[0] == '0' ? '1' : '0';
    const auto done = run("#!/bin/sh\necho ran\n");
    EXPECT_EQ(done.status, unpacking_failed_status);
    EXPECT_EQ(done.out, "");
    EXPECT_TRUE(done.err.starts_with("spiderflow: site lyra: what travels (stage=): it arrived damaged: "))
        << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_TRUE(fs::is_empty(there));
}

TEST_F(Arriving, EndsThePartWithOneLineWhereItMayNotWrite) {
    fs::permissions(there, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                               fs::perms::others_exec);
    std::vector<std::string> nobody;
    if (::geteuid() == 0) nobody = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    for (const std::string directory : {"", "runs/1"}) {
        arrival.directory = directory;
        const auto done = run("#!/bin/bash\necho ran\n", nobody);
        EXPECT_EQ(done.status, unpacking_failed_status);
        EXPECT_EQ(done.out, "");
        EXPECT_NE(done.err.find("Permission denied"), std::string::npos) << done.err;
        EXPECT_NE(done.err.find("site lyra: "), std::string::npos) << done.err;
        EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    }
    fs::permissions(there, fs::perms::owner_all);
}

TEST_F(Arriving, EndsThePartWhereADirectoryHasTheNameOfAFile) {
    fs::create_directories(there / "run me/too");
    const auto done = run("#!/bin/sh\necho ran\n");
    EXPECT_EQ(done.status, unpacking_failed_status);
    EXPECT_NE(done.err.find("./run me is a directory there. Nothing was started."), std::string::npos)
        << done.err;
    EXPECT_TRUE(clean(there));
}

} // namespace
} // namespace spider::launch
