// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/journal.h"
#include "broker/notify.h"
#include "broker/server.h"
#include "broker/settings.h"
#include "broker/translate.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <curl/curl.h>
#include <filesystem>
#include <fstream>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace spider::broker {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
  protected:
    fs::path folder = fs::path(testing::TempDir()) / ("sf" + std::to_string(::getpid()));
    Folder() {
        fs::create_directories(folder);
        write("token", "abc\n", 0600);
    }
    ~Folder() override { fs::remove_all(folder); }
    std::string write(const std::string &name, const std::string &text, mode_t mode = 0644) const {
        const auto path = (folder / name).string();
        std::ofstream(path) << text;
        ::chmod(path.c_str(), mode);
        return path;
    }
    [[nodiscard]] std::string token() const { return (folder / "token").string(); }
    [[nodiscard]] std::string site(const std::string &name, const std::string &more = "") const {
        return "[[site]]\nname = \"" + name + "\"\nurl = \"http://127.0.0.1:6820\"\ntoken_file = \"" +
               token() + "\"\n" + more;
    }
    [[nodiscard]] std::string trouble(const std::string &text) const {
        const auto path = write("spiderflow.conf", text);
        const auto config = read_config(path);
        if (config) return "";
        auto what = config.error().what;
        if (const auto at = what.find(path); at == 0) what.erase(0, path.size());
        return what;
    }
};

class Settings : public Folder {};

TEST_F(Settings, OfACompleteFileAreRead) {
    const auto path = write(
        "c", "[broker]\nhome = \"a\"\npatience = 60\nmaster_ports = [21000, 21999]\noperators = [\"ops\"]\n" +
                 site("a", "partitions = { gpu = \"big\" }\nroutable = false\nstate = \"DRAIN\"\n") +
                 site("b") +
                 "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth_gbps = 10\nrtt_ms = 20.5\nboth = false\n");
    const auto config = read_config(path);
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->patience, 60);
    EXPECT_EQ(config->port_low, 21000);
    EXPECT_EQ(config->operators, std::vector<std::string>{"ops"});
    EXPECT_EQ(config->site("a")->state, SiteState::drain);
    EXPECT_FALSE(config->site("a")->routable);
    EXPECT_EQ(mapped(config->site("a")->partitions, "gpu"), "big");
    EXPECT_EQ(mapped(config->site("a")->partitions, "other"), "other");
    ASSERT_EQ(config->links.size(), 1u);
    EXPECT_EQ(config->links[0], (LinkConfig{"a", "b", 10, 20.5, false}));
}

TEST_F(Settings, EveryMistakeIsOneLineWithItsPlaceAndTheCure) {
    const auto head = "[broker]\nhome = \"a\"\n" + site("a");
    const std::vector<std::pair<std::string, std::string>> cases{
        {"[broker]\nhme = \"a\"\n",
         ":2:1: unknown key 'hme'; known: home, socket, journal, operators, patience, plan_ttl, "
         "poll_nodes, poll_jobs, master_ports"},
        {"[brokr]\n", ":1:2: unknown key 'brokr'; known: broker, site, link"},
        {"[broker]\npatience = \"long\"\n", ":2:12: patience: expected a number of seconds, 1 or more"},
        {"[broker]\nhome = 3\n", ":2:8: home: expected a text in quotes, on one line"},
        {"[broker]\nmaster_ports = [40000, 50000]\n",
         ":2:16: master_ports: expected ports outside the ephemeral range 32768-60999"},
        {"[broker]\nhome = \"a\"\n[site]\nname = \"a\"\n", ":3:1: site: expected written as [[site]]"},
        {"[broker]\nhome = \"z\"\n" + site("a"), ": [broker] home: 'z' is not the name of a [[site]]"},
        {"[broker]\nhome = \"a\"\n", ": no [[site]]"},
        {head + site("a"), ":8:8: name: expected a name of its own: 'a' stands twice"},
        {head + "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth_gbps = 1\n",
         ":9:6: to: expected the name of a [[site]] of this file"},
        {head + site("b") + "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth_gbps = -1\n",
         ":14:18: bandwidth_gbps: expected a number above 0"},
        {head + site("b") + "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth_gbps = nan\n",
         ":14:18: bandwidth_gbps: expected a number above 0"},
        {head + "state = \"ACTIV\"\n", ":7:9: state: expected \"ACTIVE\", \"DRAIN\" or \"INACTIVE\""},
        {"[broker]\nhome = \"a\"\n[[site]]\nname = \"a\"\nurl = \"ftp://x\"\n",
         ":5:7: url: expected \"http://host:port\", \"https://host:port\" or \"unix:/path\""},
        {"[broker]\nhome = \"a\"\n[[site]]\nname = \"a\"\nurl = \"http://x\"\ntoken_file = "
         "\"/nonexistent/t\"\n",
         ":6:14: token_file: /nonexistent/t: No such file or directory"},
    };
    for (const auto &[text, expected] : cases) {
        const auto what = trouble(text);
        EXPECT_EQ(what, expected) << text;
        EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
    EXPECT_NE(trouble("[broker\n").find(":1:"), std::string::npos);
}

TEST_F(Settings, ATokenThatOthersCanReadIsRefused) {
    ::chmod(token().c_str(), 0644);
    const auto what = trouble("[broker]\nhome = \"a\"\n" + site("a"));
    EXPECT_EQ(what, ":6:14: token_file: " + token() + ": readable by others than its owner; chmod 0600 it");
}

TEST_F(Settings, AMissingFileIsNamed) {
    EXPECT_EQ(read_config("/nonexistent/c").error().what, "/nonexistent/c: No such file or directory");
}

coalloc::Job sample(const std::string &id, std::int64_t sequence, coalloc::State state) {
    coalloc::Job job;
    job.id = id;
    job.sequence = sequence;
    job.state = state;
    job.plan.outcome = Outcome::planned;
    job.plan.pp = 2;
    job.plan.stages = {{0, 3}, {4, 7}};
    job.plan.parts = {{"a", "h100", {{{0, 0}}}}, {"b", "h100", {{{1, 0}}}}};
    job.parts = {{.site = "a", .job = 12, .user = "alice"}, {.site = "b", .user = "al"}};
    job.directory = "/home/alice/run";
    return job;
}

class JournalFile : public Folder {
  protected:
    std::string path = (folder / "journal.db").string();
};

TEST_F(JournalFile, GivesJobsBackAfterAReopenAndKeepsOthersOut) {
    {
        auto journal = Journal::open(path);
        ASSERT_TRUE(journal) << journal.error().what;
        ASSERT_TRUE(journal->save(sample("a-2", 2, coalloc::State::planned)));
        ASSERT_TRUE(journal->save(sample("a-1", 1, coalloc::State::done)));
        ASSERT_TRUE(journal->save(sample("a-2", 2, coalloc::State::running)));
    }
    auto journal = Journal::open(path);
    ASSERT_TRUE(journal);
    const auto jobs = journal->load(10);
    ASSERT_TRUE(jobs) << jobs.error().what;
    ASSERT_EQ(jobs->size(), 2u);
    EXPECT_EQ((*jobs)[0], sample("a-1", 1, coalloc::State::done));
    EXPECT_EQ((*jobs)[1].state, coalloc::State::running);
    EXPECT_EQ(journal->load(0)->size(), 1u);
    struct stat about {};
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(JournalFile, NeverGivesANumberTwice) {
    std::int64_t last = 0;
    for (int i = 0; i < 3; ++i) {
        auto journal = Journal::open(path);
        ASSERT_TRUE(journal);
        for (int k = 0; k < 3; ++k) {
            const auto number = journal->next_sequence();
            ASSERT_TRUE(number);
            EXPECT_GT(*number, last);
            last = *number;
        }
    }
}

TEST_F(JournalFile, OfANewerVersionIsRefused) {
    sqlite3 *db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
    sqlite3_close(db);
    const auto journal = Journal::open(path);
    ASSERT_FALSE(journal);
    EXPECT_NE(journal.error().what.find("newer spiderflowd (schema 99)"), std::string::npos);
}

TEST_F(JournalFile, ThatIsNoDatabaseIsAnErrorThatNamesIt) {
    write(
        "journal.db",
        "this is no database, and it is long enough to be looked at as one................................");
    const auto journal = Journal::open(path);
    ASSERT_FALSE(journal);
    EXPECT_NE(journal.error().what.find(path), std::string::npos);
}

std::string value_of(const wire::Pairs &pairs, const std::string &name) {
    for (const auto &[key, value] : pairs)
        if (key == name) return value;
    return "(none)";
}

TEST(Translate, TheHomePartAsksForThePlansSizeAndKeepsTheUsersComment) {
    auto job = sample("a-3", 3, coalloc::State::planned);
    job.user_comment = "my run";
    job.options = {{"gres", "gpu:8,lscratch:10"}};
    const auto options = home_options(job, "h100");
    EXPECT_EQ(value_of(options, "nodes"), "1");
    EXPECT_EQ(value_of(options, "ntasks"), "1");
    EXPECT_EQ(value_of(options, "gres"), "gpu:h100:1,lscratch:10");
    EXPECT_EQ(value_of(options, "comment"), "my run spiderflow=a-3/1");
    EXPECT_EQ(value_of(options, "hold"), "");
    job.options = {{"gpus-per-node", "8"}};
    EXPECT_EQ(value_of(home_options(job, ""), "gpus-per-node"), "1");
    EXPECT_EQ(value_of(home_options(job, ""), "gres"), "(none)");
}

TEST(Translate, APartElsewhereCarriesWhatTheUserAskedInItsSitesWords) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    job.name = "train";
    job.options = {{"time", "1:30:00"}, {"cpus-per-task", "4"},  {"mem-per-gpu", "2G"}, {"partition", "gpu"},
                   {"account", "proj"}, {"signal", "B:USR1@60"}, {"output", "log-%j"},  {"exclusive", ""}};
    SiteConfig site;
    site.name = "b";
    site.partitions = {{"gpu", "big"}};
    site.account = "fallback";
    site.accounts = {{"proj", "p17"}};
    site.workdir = "/scratch/%u";
    wire::PlaceRequest request;
    request.script = "#!/bin/bash\nsrun hostname\n";
    request.environment = {{"MINE", "1"}, {"PATH", "/evil"}};
    request.arguments = {"x y"};
    const auto submission = submission_of(job, 1, site, "h100", request, {});
    ASSERT_TRUE(submission) << submission.error().what;
    EXPECT_EQ(submission->time_limit_minutes, 90);
    EXPECT_EQ(submission->cpus_per_task, 4);
    EXPECT_EQ(submission->memory_per_node_mb, 2048);
    EXPECT_EQ(submission->partition, "big");
    EXPECT_EQ(submission->account, "p17");
    EXPECT_EQ(submission->signal, "B:USR1@60");
    EXPECT_EQ(submission->output, "log-%j");
    EXPECT_EQ(submission->exclusive, "true");
    EXPECT_EQ(submission->directory, "/scratch/al");
    EXPECT_EQ(submission->comment, "spiderflow=a-3/1");
    EXPECT_NE(submission->script.find("set -- 'x y'\n"), std::string::npos);
    EXPECT_TRUE(submission->hold);
    EXPECT_EQ(value_of(submission->environment, "MINE"), "1");
    EXPECT_EQ(value_of(submission->environment, "PATH"), "/usr/local/bin:/usr/bin:/bin");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPIDERFLOW_SITE"), "b");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPIDERFLOW_SLOTS"), "1.0");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPANK__SLURM_SPANK_OPTION_spiderflow_spiderflow"),
              "(null)");
}

TEST(Translate, AnOptionThatCannotBeCarriedIsNamed) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    job.options = {{"time", "soon"}};
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    EXPECT_EQ(submission_of(job, 1, {}, "", request, {}).error().what.rfind("--time: ", 0), 0u);
    request.script = "echo no shebang\n";
    job.options = {};
    EXPECT_EQ(submission_of(job, 1, {}, "", request, {}).error().what,
              "the batch script does not begin with '#!'");
}

class Socket : public Folder {
  protected:
    std::string socket = (folder / "d.sock").string();
    static std::size_t keep(char *data, std::size_t size, std::size_t count, void *text) {
        static_cast<std::string *>(text)->append(data, size * count);
        return size * count;
    }
    [[nodiscard]] std::pair<long, std::string> ask(const std::string &path,
                                                   const std::string &body = "") const {
        CURL *curl = curl_easy_init();
        std::string text;
        long status = 0;
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
        curl_easy_setopt(curl, CURLOPT_URL, ("http://localhost" + path).c_str());
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &keep);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
        if (!body.empty()) {
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
            curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
        }
        curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(curl);
        return {status, text};
    }
};

TEST_F(Socket, KnowsTheCallerByHisProcessAndGivesTheHandlerAllHeSent) {
    auto server = Server::open(socket, [](const ApiRequest &request) {
        return ApiReply{201, request.method + " " + request.path + (request.all ? " all " : " ") +
                                 std::to_string(request.uid) + " " + std::to_string(request.body.size())};
    });
    ASSERT_TRUE(server) << server.error().what;
    const auto uid = std::to_string(::getuid());
    EXPECT_EQ(ask("/v1/jobs?all=1"), (std::pair<long, std::string>{201, "GET /v1/jobs all " + uid + " 0"}));
    EXPECT_EQ(ask("/v1/plans", std::string(100000, 'x')),
              (std::pair<long, std::string>{201, "POST /v1/plans " + uid + " 100000"}));
    EXPECT_EQ(ask("/v1/plans", std::string(9 << 20, 'x')).first, 413);
}

// systemd's side of sd_notify(3), played by a socket of our own.
TEST_F(Socket, OfSystemdGetsWhatTheDaemonSays) {
    const auto path = (folder / "notify").string();
    const util::Fd systemd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
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
}

TEST(Watchdog, IsDueTwiceInItsTime) {
    ::setenv("WATCHDOG_USEC", "60000000", 1);
    EXPECT_EQ(watchdog_interval(), 30);
    ::setenv("WATCHDOG_USEC", "no", 1);
    EXPECT_EQ(watchdog_interval(), 0);
    ::unsetenv("WATCHDOG_USEC");
    EXPECT_EQ(watchdog_interval(), 0);
}

TEST_F(Socket, OfADeadBrokerIsReplacedAndOfALiveOneIsNot) {
    const auto handler = [](const ApiRequest &) { return ApiReply{200, "{}"}; };
    auto first = Server::open(socket, handler);
    ASSERT_TRUE(first);
    const auto second = Server::open(socket, handler);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().what, "socket " + socket + ": another spiderflowd answers there");
    first->reset();
    write("plain", "");
    EXPECT_FALSE(Server::open((folder / "plain").string(), handler));
    EXPECT_TRUE(Server::open(socket, handler));
}

} // namespace
} // namespace spider::broker
