// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/server.h"
#include "broker/settings.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <curl/curl.h>
#include <filesystem>
#include <fstream>
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
        {"[broker]\nhme = \"a\"\n", ":2:1: unknown key 'hme'; known: home, socket, journal, link_history, operators, "
                                    "forward_options, patience, margin, backoff, backoff_most, "
                                    "lost_after, retry_delay, keep_ended, plan_ttl, "
                                    "poll_nodes, poll_jobs, master_ports"},
        {"[brokr]\n", ":1:2: unknown key 'brokr'; known: broker, site, link, probe"},
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

TEST_F(Settings, OfASitesNetworkAndScriptsAreRead) {
    const auto path = write(
        "c", "[broker]\nhome = \"a\"\nforward_options = [\"pyxis:container-image\"]\n" +
                 site("a", "addresses = { \"n[1-3]\" = \"10.1.0.[11-13]\", gw = \"fd00::1\" }\n"
                           "interface = \"^lo,docker0\"\nmax_script = 16777216\nworkdir = \"/w/%u/%j\"\n"));
    const auto config = read_config(path);
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->forward_options, std::vector<std::string>{"pyxis:container-image"});
    EXPECT_EQ(config->site("a")->addresses,
              (std::map<std::string, std::string>{
                  {"n1", "10.1.0.11"}, {"n2", "10.1.0.12"}, {"n3", "10.1.0.13"}, {"gw", "fd00::1"}}));
    EXPECT_EQ(config->site("a")->interface, "^lo,docker0");
    EXPECT_EQ(config->site("a")->max_script, 16 << 20);
    EXPECT_EQ(SiteConfig{}.max_script, 4194304) << "max_script_size of slurm.conf(5)";
}

TEST_F(Settings, OfTurnsAndAttemptsAreRead) {
    const auto path = write("c", "[broker]\nhome = \"a\"\npatience = 1.5\nmargin = 0\nbackoff = 0.1\n"
                                 "backoff_most = 2\nlost_after = 3.5\nretry_delay = 0\nkeep_ended = 7\n" +
                                     site("a"));
    const auto config = read_config(path);
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->patience, 1.5);
    EXPECT_EQ(config->margin, 0);
    EXPECT_EQ(config->backoff, 0.1);
    EXPECT_EQ(config->backoff_most, 2);
    EXPECT_EQ(config->lost_after, 3.5);
    EXPECT_EQ(config->retry_delay, 0);
    EXPECT_EQ(config->keep_ended, 7);
    const Config defaults;
    EXPECT_EQ(defaults.margin, 15);
    EXPECT_EQ(defaults.backoff, 30);
    EXPECT_EQ(defaults.backoff_most, 1800);
    EXPECT_EQ(defaults.lost_after, 60);
    EXPECT_EQ(defaults.retry_delay, 10);
    EXPECT_EQ(defaults.keep_ended, 1000);
}

TEST_F(Settings, OutOfRangeForTurnsAndAttemptsAreOneLine) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"margin = -1", "10: margin: expected a number of seconds, 0 or more"},
        {"margin = inf", "10: margin: expected a number of seconds, 0 or more"},
        {"backoff = 0", "11: backoff: expected a number of seconds, 0.1 or more"},
        {"backoff_most = 0.5", "16: backoff_most: expected a number of seconds, 1 or more"},
        {"lost_after = 0", "14: lost_after: expected a number of seconds, 1 or more"},
        {"retry_delay = \"no\"", "15: retry_delay: expected a number of seconds, 0 or more"},
        {"keep_ended = 0", "14: keep_ended: expected a whole number between 1 and 1000000"},
        {"keep_ended = 1.5", "14: keep_ended: expected a whole number between 1 and 1000000"},
        {"keep_ended = 1000001", "14: keep_ended: expected a whole number between 1 and 1000000"},
    };
    for (const auto &[line, expected] : cases)
        EXPECT_EQ(trouble("[broker]\n" + line + "\n"), ":2:" + expected);
}

TEST_F(Settings, MistakesInThemAreOneLineWithTheirPlace) {
    const auto head = "[broker]\nhome = \"a\"\n" + site("a");
    const std::vector<std::pair<std::string, std::string>> cases{
        {"[broker]\nforward_options = [\"pyxis\"]\n",
         ":2:20: forward_options: expected PLUGIN:OPTION, as in \"pyxis:container-image\""},
        {"[broker]\nforward_options = [\"a:b\", \":x\"]\n",
         ":2:27: forward_options: expected PLUGIN:OPTION, as in \"pyxis:container-image\""},
        {head + "addresses = { \"n[1-4]\" = \"10.1.0.[11-13]\" }\n",
         ":7:26: addresses: expected as many addresses as nodes: n[1-4] are 4, 10.1.0.[11-13] are 3"},
        {head + "addresses = { \"n[1-\" = \"10.1.0.1\" }\n",
         ":7:24: addresses: expected two host lists; host list 'n[1-': '[' without ']'"},
        {head + "addresses = { n1 = \"a\", \"n[1-2]\" = \"b[1-2]\" }\n",
         ":7:36: addresses: expected each node once: n1 stands twice"},
        {head + "addresses = { n1 = \"10.0.0.1/24\" }\n",
         ":7:20: addresses: expected host names or IP addresses"},
        {head + "addresses = { n1 = \"\" }\n",
         ":7:20: addresses: expected as many addresses as nodes: n1 are 1,  are 0"},
        {head + "addresses = \"n1\"\n",
         ":7:13: addresses: expected a table: { \"n[1-4]\" = \"10.1.0.[11-14]\" }"},
        {head + "interface = \"ib 0\"\n", ":7:13: interface: expected interfaces as NCCL_SOCKET_IFNAME names "
                                          "them: \"ib0\", \"=eth0,eth1\", \"^lo,docker\""},
        {head + "interface = \"^\"\n", ":7:13: interface: expected interfaces as NCCL_SOCKET_IFNAME names "
                                       "them: \"ib0\", \"=eth0,eth1\", \"^lo,docker\""},
        {head + "max_script = 16777217\n",
         ":7:14: max_script: expected a whole number between 4096 and 16777216"},
        {head + "max_script = 4.5\n", ":7:14: max_script: expected a whole number between 4096 and 16777216"},
        {head + "workdir = \"/w/%x\"\n",
         ":7:11: workdir: expected an absolute path in quotes, in it no '%' but %u and %j"},
        {head + "workdir = \"/w/%\"\n",
         ":7:11: workdir: expected an absolute path in quotes, in it no '%' but %u and %j"},
    };
    for (const auto &[text, expected] : cases)
        EXPECT_EQ(trouble(text), expected) << text;
}

TEST_F(Settings, ATokenThatOthersCanReadIsRefused) {
    ::chmod(token().c_str(), 0644);
    const auto what = trouble("[broker]\nhome = \"a\"\n" + site("a"));
    EXPECT_EQ(what, ":6:14: token_file: " + token() + ": readable by others than its owner; chmod 0600 it");
}

TEST_F(Settings, AMissingFileIsNamed) {
    EXPECT_EQ(read_config("/nonexistent/c").error().what, "/nonexistent/c: No such file or directory");
}

class Socket : public Folder {
  protected:
    std::string socket = (folder / "d.sock").string();
    std::string answered_type; // of the last answer
    static std::size_t keep(char *data, std::size_t size, std::size_t count, void *text) {
        static_cast<std::string *>(text)->append(data, size * count);
        return size * count;
    }
    [[nodiscard]] std::pair<long, std::string> ask(const std::string &path, const std::string &body = "") {
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
        const char *said = nullptr;
        curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &said);
        answered_type = said == nullptr ? "" : said;
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
    EXPECT_EQ(ask("/v1/plans", std::string(25 << 20, 'x')).first, 413);
}

TEST_F(Socket, AnswersJsonUnlessTheHandlerSaysOtherwise) {
    auto server = Server::open(socket, [](const ApiRequest &request) {
        return request.path == "/metrics" ? ApiReply{200, "a 1\n", "text/plain; version=0.0.4"}
                                          : ApiReply{200, "{}"};
    });
    ASSERT_TRUE(server) << server.error().what;
    EXPECT_EQ(ask("/v1/sites").second, "{}");
    EXPECT_EQ(answered_type, "application/json");
    EXPECT_EQ(ask("/metrics").second, "a 1\n");
    EXPECT_EQ(answered_type, "text/plain; version=0.0.4");
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
