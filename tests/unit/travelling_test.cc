// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/travelling.h"
#include "util/process.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spider::cli {
namespace {

namespace fs = std::filesystem;

class Stage : public testing::Test {
  protected:
    fs::path home = fs::path(testing::TempDir()) / ("stage" + std::to_string(::getpid()));
    Stage() { fs::create_directories(home / "data/deep"); }
    ~Stage() override { fs::remove_all(home); }

    void write(const std::string &name, const std::string &text) const { std::ofstream(home / name) << text; }
    [[nodiscard]] Travelling travelling(std::vector<std::string> paths) const {
        return {home.string(), std::move(paths)};
    }
    [[nodiscard]] std::string trouble(std::vector<std::string> paths) const {
        const auto packed = pack(travelling(std::move(paths)));
        return packed ? "none" : packed.error().what;
    }
    // Of base64(1) and sha256sum(1).
    static std::string hash(const wire::Archive &archive) {
        const auto done =
            util::run({.argv = {"/bin/sh", "-c", "base64 -d | sha256sum"}, .input = archive.base64});
        return done ? done->out.substr(0, 64) : done.error().what;
    }
};

TEST_F(Stage, OfTheSameContentIsTheSameBytes) {
    write("data/b", "b\n"), write("data/a b", "a\n"), write("train.py", "pass\n");
    const auto first = pack(travelling({"data", "train.py"}));
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_EQ(hash(*first), first->sha256);
    fs::remove_all(home / "data");
    fs::create_directories(home / "data/deep");
    write("data/a b", "a\n"), write("data/b", "b\n"); // other times, another order
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (home / "train.py").c_str(), long_ago, 0), 0);
    if (::geteuid() == 0) {
        ASSERT_EQ(::chown((home / "train.py").c_str(), 65534, 65534), 0);
    }
    const auto second = pack(travelling({"data", "train.py"}));
    ASSERT_TRUE(second) << second.error().what;
    EXPECT_EQ(*first, *second);
    write("data/b", "c\n");
    EXPECT_NE(pack(travelling({"data", "train.py"}))->sha256, first->sha256);
}

TEST_F(Stage, LinksTravelAsWhatTheyPointAt) {
    write("train.py", "pass\n");
    fs::create_symlink(home / "train.py", home / "data/link");
    const auto packed = pack(travelling({"data/link"}));
    ASSERT_TRUE(packed) << packed.error().what;
    const auto done = util::run(
        {.argv = {"/bin/sh", "-c", "base64 -d | tar -xzOf - ./data/link"}, .input = packed->base64});
    EXPECT_EQ(done->out, "pass\n");
}

TEST_F(Stage, WhatCannotTravelIsNamedInOneLine) {
    EXPECT_EQ(trouble({}), "none");
    EXPECT_EQ(trouble({"no\nsuch"}), "stage=no?such: no such file");
    ASSERT_EQ(::mkfifo((home / "data/deep/pipe").c_str(), 0600), 0);
    const std::string special = ": neither a file nor a directory: sockets, devices and pipes cannot travel";
    EXPECT_EQ(trouble({"data"}), "stage=data/deep/pipe" + special);
    EXPECT_EQ(trouble({"data/deep/pipe"}), "stage=data/deep/pipe" + special);
    fs::remove(home / "data/deep/pipe");
    fs::create_symlink(home / "data", home / "data/deep/loop");
    EXPECT_NE(trouble({"data"}).find("stage"), std::string::npos);
    EXPECT_EQ(trouble({"data"}).find('\n'), std::string::npos);
    fs::remove(home / "data/deep/loop");
    EXPECT_EQ(trouble({"data"}), "none");
}

TEST_F(Stage, WhatIsTooLargeIsRefusedBeforeAndAfterItIsPacked) {
    fs::resize_file((write("large", ""), home / "large"), std::uintmax_t{300} << 20);
    EXPECT_EQ(trouble({"large"}),
              "stage: more than 268 MB of files; use a file system that both sites see, or "
              "a container image");
    std::string noise(12 << 20, ' ');
    std::mt19937 chance(7);
    for (auto &byte : noise)
        byte = static_cast<char>(chance());
    write("large", noise);
    EXPECT_EQ(trouble({"large"}),
              "stage: more than 11.5 MB when packed; use a file system that both sites see, "
              "or a container image");
}

TEST_F(Stage, AFileThatMayNotBeReadIsNamed) {
    write("secret", "x");
    ::chmod((home / "secret").c_str(), 0);
    const auto child = ::fork(); // root reads everything
    if (child == 0) {
        if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
        const auto seen = look(travelling({"secret"}));
        ::_exit(!seen && seen.error().what == "stage=secret: Permission denied" ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace spider::cli
