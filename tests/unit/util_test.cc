// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/comment.h"
#include "util/fd.h"
#include "util/hostlist.h"
#include "util/notify.h"
#include "util/process.h"
#include "util/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace spider::util {
namespace {

using Hosts = std::vector<std::string>;

TEST(Hostlist, BracketsAreExpandedInSlurmsOrder) {
    EXPECT_EQ(*expand_hostlist("nodeA,nodeB[001,003],nodeC"), (Hosts{"nodeA", "nodeB001", "nodeB003", "nodeC"}));
    EXPECT_EQ(*expand_hostlist("rack[0-1]_blade[0-1]"),
              (Hosts{"rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"}));
    EXPECT_EQ(*expand_hostlist("n[008-010,2]"), (Hosts{"n008", "n009", "n010", "n2"}));
    EXPECT_EQ(*expand_hostlist(""), Hosts{});
}

TEST(Hostlist, NonsenseIsAnErrorAndNotAnExhaustedMemory) {
    for (const auto *list : {"n[1", "n]1", "n[[1]]", "n[3-1]", "n[a-b]", "n[]", "n[-1]", "n[1-99999999999]",
                             "n[0-9999]x[0-9999]"})
        EXPECT_FALSE(expand_hostlist(list)) << list;
}

TEST(Time, SlurmsGrammarIsUnderstoodInAllItsForms) {
    const std::vector<std::pair<std::string, std::int64_t>> good{
        {"30", 30},      {"30:00", 30},     {"0:30", 1},        {"1:00:00", 60},
        {"2-12", 3600},  {"2-12:30", 3630}, {"1-0:0:1", 1441},  {"0", 0},
        {"UNLIMITED", unlimited_minutes},   {"infinite", unlimited_minutes}, {"90:00", 90}, {"10:00:30", 601}};
    for (const auto &[text, minutes] : good) {
        const auto got = parse_time_limit(text);
        ASSERT_TRUE(got) << text;
        EXPECT_EQ(*got, minutes) << text;
    }
    for (const auto *bad : {"", "x", "1:2:3:4", "-5", "1-", "-", "1-2:3:4:5", "5m", "1:", "2-12-3", " 5"})
        EXPECT_FALSE(parse_time_limit(bad)) << bad;
}

TEST(Memory, SuffixesAreBinaryAndNoSuffixMeansMegabytes) {
    EXPECT_EQ(*parse_megabytes("16000"), 16000);
    EXPECT_EQ(*parse_megabytes("4G"), 4096);
    EXPECT_EQ(*parse_megabytes("2t"), 2 * 1024 * 1024);
    EXPECT_EQ(*parse_megabytes("1K"), 1);
    EXPECT_EQ(*parse_megabytes("0"), 0);
    for (const auto *bad : {"", "G", "-1", "4GB", "1.5G", "x"}) EXPECT_FALSE(parse_megabytes(bad)) << bad;
}

TEST(Line, EveryTextSurvivesTheTripBetweenPluginAndHelper) {
    const std::string text("a%b\nc\r\0d%41 e%", 15);
    EXPECT_EQ(escape_line(text).find('\n'), std::string::npos);
    EXPECT_EQ(unescape_line(escape_line(text)), text);
}

TEST(Shell, AQuotedWordIsOneWordForARealShell) {
    const std::string word = "it's $HOME `id` \\ \"x\" *";
    const auto finished = run({.argv = {"/bin/sh", "-c", "printf %s " + shell_quote(word)}});
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->out, word);
}

TEST(Comment, IsReadBackWithTheUsersOwnTextAndWhatTheBrokerAdded) {
    const Comment plain{.user = "", .job = "s1-17", .attempt = 1};
    const Comment word{.user = "", .job = "a-1", .attempt = 12, .run = 3, .word = "fd00::1/20001"};
    for (auto comment : {plain, word}) {
        for (const auto back : {std::optional<int>(), std::optional(0), std::optional(7)})
            for (const char *user : {"", "my run|2 spiderflow", "spiderflow=x/1", "my spiderflow=x/1 go=a/1 run=1 back=0"}) {
                comment.user = user;
                comment.back = back;
                const auto read = parse_comment(to_text(comment));
                ASSERT_TRUE(read) << to_text(comment);
                EXPECT_EQ(*read, comment) << to_text(comment);
            }
    }
    EXPECT_EQ(to_text({.user = "mine", .job = "s1-17", .attempt = 1, .run = 2, .back = 1, .word = "10.0.0.1/29501"}),
              "mine spiderflow=s1-17/1 go=10.0.0.1/29501 run=2 back=1");
    EXPECT_EQ(to_text(plain), "spiderflow=s1-17/1");
}

TEST(Comment, WithoutARunMeansTheFirst) {
    const auto read = parse_comment("mine spiderflow=s1-17/1 go=10.0.0.1/29501\n");
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, (Comment{.user = "mine", .job = "s1-17", .attempt = 1, .word = "10.0.0.1/29501"}));
}

TEST(Comment, OfAnotherJobOrWithMoreBehindItIsNotOurs) {
    for (const auto *text : {"", "hello", "spiderflow=", "spiderflow=s1-1", "spiderflow=s1-1/x", "notspiderflow=a/1",
                             "spiderflow=a b/1", "spiderflow=/1", "spiderflow=s1-1/-1", "spiderflow=s1-1/1 hello",
                             "spiderflow=s1-1/1 back=", "spiderflow=s1-1/1 back=x", "spiderflow=s1-1/1 back=-1",
                             "spiderflow=s1-1/1 back=9999999", "spiderflow=s1-1/1 go=a/1 run=1x",
                             "spiderflow=s1-1/1 back=0 go", "spiderflow=s1-1/1 stay=1"})
        EXPECT_FALSE(parse_comment(text)) << text;
}

TEST(Process, GivesOutputStatusAndSignal) {
    const auto echo = run({.argv = {"/bin/cat"}, .input = "hello"});
    ASSERT_TRUE(echo);
    EXPECT_EQ(echo->out, "hello");
    EXPECT_EQ(run({.argv = {"/bin/sh", "-c", "echo oops >&2; exit 7"}})->status, 7);
    EXPECT_EQ(run({.argv = {"/bin/sh", "-c", "kill -9 $$"}})->status, 137);
    EXPECT_EQ(run({.argv = {"/bin/sh", "-c", "echo oops >&2"}})->err, "oops\n");
}

TEST(Process, LargeInputToAChildThatReadsNothingIsNoTrouble) {
    const auto done = run({.argv = {"/bin/true"}, .input = std::string(1 << 20, 'x')});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, 0);
}

TEST(Process, AMissingProgramIsAnErrorThatNamesIt) {
    const auto gone = run({.argv = {"/nonexistent/tool"}});
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code, Errc::system);
    EXPECT_NE(gone.error().what.find("/nonexistent/tool"), std::string::npos);
}

TEST(Process, AtTheDeadlineTheChildAndItsChildrenAreEnded) {
    const auto late = run({.argv = {"/bin/sh", "-c", "sleep 30 & wait"}, .deadline = 0.2});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::timeout);
}

class Secret : public testing::Test {
  protected:
    std::string path = testing::TempDir() + "secret" + std::to_string(::getpid());
    void write(const std::string &text, mode_t mode) const {
        std::ofstream(path) << text;
        ::chmod(path.c_str(), mode);
    }
    ~Secret() override { ::unlink(path.c_str()); }
};

TEST_F(Secret, IsReadWithoutItsLineEnd) {
    write("token\n", 0600);
    EXPECT_EQ(*read_secret(path), "token");
}

TEST_F(Secret, ThatOthersCanReadIsRefusedWithTheCure) {
    write("token\n", 0644);
    const auto secret = read_secret(path);
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().what, path + ": readable by others than its owner; chmod 0600 it");
}

TEST_F(Secret, MissingOrEmptyIsAnErrorThatNamesTheFile) {
    EXPECT_EQ(read_secret(path).error().what, path + ": No such file or directory");
    write(" \n", 0600);
    EXPECT_EQ(read_secret(path).error().what, path + ": empty");
}

class Replaced : public testing::Test {
  protected:
    std::filesystem::path folder = testing::TempDir() + "replaced" + std::to_string(::getpid());
    Replaced() { std::filesystem::create_directories(folder); }
    ~Replaced() override { std::filesystem::remove_all(folder); }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
    }
};

TEST_F(Replaced, FileHasTheNewTextAlsoBehindALinkAndNothingIsLeftBesideIt) {
    const auto path = (folder / "a").string(), link = (folder / "b").string();
    EXPECT_TRUE(replace_file(path, "long old text"));
    std::filesystem::create_symlink("a", link);
    EXPECT_TRUE(replace_file(link, "new"));
    EXPECT_EQ(*read_file(path), "new");
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(files(), 2u);
}

TEST_F(Replaced, OpenFileKeepsTheOldText) {
    const auto path = (folder / "a").string();
    EXPECT_TRUE(replace_file(path, "old"));
    std::ifstream reader(path);
    EXPECT_TRUE(replace_file(path, "new"));
    std::string text;
    reader >> text;
    EXPECT_EQ(text, "old");
}

TEST_F(Replaced, FolderOrMissingFolderIsAnErrorThatNamesThePath) {
    EXPECT_EQ(replace_file(folder, "x").error().what, folder.string() + ": not a regular file");
    const auto lost = (folder / "none/a").string();
    EXPECT_EQ(replace_file(lost, "x").error().what, lost + ": No such file or directory");
    EXPECT_EQ(files(), 0u);
}

// systemd's side of sd_notify(3), played by a socket of our own.
TEST(Notify, SystemdGetsWhatAProgramSays) {
    const auto path = testing::TempDir() + "/sfnotify" + std::to_string(::getpid());
    const Fd systemd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(systemd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    notify("READY=1");
    ::unsetenv("NOTIFY_SOCKET");
    notify("STOPPING=1"); // to nobody
    char text[64] = "";
    EXPECT_EQ(::recv(systemd.get(), text, sizeof text, MSG_DONTWAIT), 7);
    EXPECT_STREQ(text, "READY=1");
    EXPECT_LT(::recv(systemd.get(), text, sizeof text, MSG_DONTWAIT), 0);
    ::unlink(path.c_str());
}

TEST(Watchdog, IsDueTwiceInItsTime) {
    ::setenv("WATCHDOG_USEC", "60000000", 1);
    EXPECT_EQ(watchdog_interval(), 30);
    ::setenv("WATCHDOG_USEC", "no", 1);
    EXPECT_EQ(watchdog_interval(), 0);
    ::unsetenv("WATCHDOG_USEC");
    EXPECT_EQ(watchdog_interval(), 0);
}

} // namespace
} // namespace spider::util
