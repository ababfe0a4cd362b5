// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/agent_config.h"
#include "probe/guard.h"
#include "probe/messages.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

namespace spider::probe {
namespace {

namespace fs = std::filesystem;

constexpr Seconds now = 1e9;

TEST(Refusal, IsTheSameErrorAtTheOtherEnd) {
    for (const auto code : {Errc::invalid, Errc::not_found, Errc::denied, Errc::refused, Errc::unreachable,
                            Errc::timeout, Errc::protocol, Errc::system}) {
        const auto error = refusal_in(refusal({code, "because"}));
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code, code);
        EXPECT_EQ(error->what, "because");
    }
    EXPECT_FALSE(refusal_in({{"echo", true}}));
    EXPECT_EQ(refusal_in({{"error", "x"}, {"code", "nonsense"}})->code, Errc::protocol);
}

Address address(const std::string &text) {
    Address address;
    auto &v4 = reinterpret_cast<sockaddr_in &>(address.raw);
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address.raw);
    if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        address.size = sizeof v4;
    } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        address.size = sizeof v6;
    }
    return address;
}

TEST(Network, ContainsItsAddressesAndNoOthers) {
    const auto contains = [](const char *network, const char *one) {
        return Network::parse(network)->contains(address(one));
    };
    EXPECT_TRUE(contains("192.0.2.0/24", "192.0.2.255"));
    EXPECT_FALSE(contains("192.0.2.0/24", "192.0.3.0"));
    EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.129"));
    EXPECT_FALSE(contains("192.0.2.128/25", "192.0.2.127"));
    EXPECT_TRUE(contains("192.0.2.7", "192.0.2.7"));
    EXPECT_FALSE(contains("192.0.2.7", "192.0.2.8"));
    EXPECT_TRUE(contains("192.0.2.0/24", "::ffff:192.0.2.1")) << "as a socket for both families shows it";
    EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
    EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
    EXPECT_TRUE(contains("0.0.0.0/0", "203.0.113.1"));
    EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
    EXPECT_FALSE(Network::parse("0.0.0.0/0")->contains(Address{})) << "no address at all";
}

TEST(Network, NonsenseIsAnError) {
    for (const auto *text : {"", "host", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/", "192.0.2/24",
                             "2001:db8::/129", "[::1]", "192.0.2.1:7711", "192.0.2.0/24 "})
        EXPECT_FALSE(Network::parse(text)) << text;
}

TEST(HostPort, BothFamiliesAndNamesAreUnderstoodAndNonsenseIsNot) {
    EXPECT_EQ(parse_host_port("[2001:db8::1]:7711")->host, "2001:db8::1");
    EXPECT_EQ(parse_host_port("dtn.example.org:7711")->port, "7711");
    for (const auto *text :
         {"", "host", "host:", ":7711", "host:70000", "host:x", "2001:db8::1:7711", "[]:1", "[::1:7"})
        EXPECT_FALSE(parse_host_port(text)) << text;
}

TEST(DailyBytes, AreForgottenTheNextDayAndNotBefore) {
    constexpr Seconds day = 86400;
    DailyBytes daily;
    daily.count(5, 10 * day + 1);
    daily.count(6, 11 * day - 1);
    EXPECT_EQ(daily.spent(11 * day - 1), 11);
    EXPECT_EQ(daily.spent(11 * day), 0);
    daily.count(7, 11 * day);
    EXPECT_EQ(daily.spent(11 * day + 5), 7);
}

TEST(QuietLog, SaysEachKindOncePerAddressAndHour) {
    QuietLog quiet;
    EXPECT_TRUE(quiet.due("stranger", "192.0.2.1", now));
    EXPECT_FALSE(quiet.due("stranger", "192.0.2.1", now + 3599));
    EXPECT_TRUE(quiet.due("allow", "192.0.2.1", now));
    EXPECT_TRUE(quiet.due("stranger", "192.0.2.2", now));
    EXPECT_TRUE(quiet.due("stranger", "192.0.2.1", now + 3600));
}

TEST(QuietLog, SaysAThousandLinesAnHourAndOneMoreWhateverComes) {
    QuietLog quiet;
    int said = 0;
    for (int i = 0; i < 100'000; ++i)
        said += quiet.due("stranger", std::to_string(i), now) ? 1 : 0;
    EXPECT_EQ(said, 1001);
    EXPECT_TRUE(quiet.due("stranger", "x", now + 3600));
}

TEST(Places, AreTakenByNoAddressAlone) {
    Places places;
    for (int i = 0; i < most_unproven; ++i)
        EXPECT_TRUE(places.enter("192.0.2.1"));
    EXPECT_FALSE(places.enter("192.0.2.1"));
    EXPECT_TRUE(places.enter("192.0.2.2"));
    places.prove("192.0.2.1");
    EXPECT_TRUE(places.enter("192.0.2.1")) << "who knows the key is not counted";
    places.leave("192.0.2.1", false);
    EXPECT_TRUE(places.enter("192.0.2.1"));
    while (places.enter("192.0.2." + std::to_string(places.taken())))
        continue;
    EXPECT_EQ(places.taken(), most_connections);
}

class Folder : public testing::Test {
  protected:
    fs::path folder = fs::path(testing::TempDir()) / ("sfprobe" + std::to_string(::getpid()));
    Folder() { fs::create_directories(folder); }
    ~Folder() override { fs::remove_all(folder); }
    [[nodiscard]] std::string write(const std::string &name, const std::string &text,
                                    mode_t mode = 0600) const {
        const auto path = (folder / name).string();
        std::ofstream(path) << text;
        ::chmod(path.c_str(), mode);
        return path;
    }
};

TEST_F(Folder, KeyIsReadAsHexAndAsBase64) {
    const std::string hex = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    const std::string base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    std::string bytes;
    for (char c = 0; c < 32; ++c)
        bytes += c;
    for (const auto &text : {hex + "\n", base64, base64.substr(0, 20) + "\n" + base64.substr(20)}) {
        const auto key = read_key(write("key", text));
        ASSERT_TRUE(key) << key.error().what;
        EXPECT_EQ(key->bytes(), bytes);
    }
}

TEST_F(Folder, KeyThatOthersCanReadOrThatIsShortIsRefused) {
    EXPECT_EQ(read_key(write("open", std::string(64, 'a'), 0640)).error().code, Errc::denied);
    for (const auto &text :
         {std::string(62, 'a'), std::string("hunter2"), std::string(50, '!'), std::string()}) {
        const auto path = write("short", text);
        const auto key = read_key(path);
        ASSERT_FALSE(key) << text;
        EXPECT_EQ(key.error().what.rfind(path + ": ", 0), 0u);
        EXPECT_TRUE(text.empty() || key.error().what.find(text) == std::string::npos)
            << "it is never printed";
    }
    EXPECT_EQ(read_key((folder / "none").string()).error().code, Errc::not_found);
}

TEST_F(Folder, MadeKeyIsNewSecretAndNeverInPlaceOfAFile) {
    const auto one = (folder / "one").string(), two = (folder / "two").string();
    ASSERT_TRUE(make_key(one));
    ASSERT_TRUE(make_key(two));
    struct stat about {};
    ::stat(one.c_str(), &about);
    EXPECT_EQ(about.st_mode & 07777, 0600u);
    EXPECT_EQ(read_key(one)->bytes().size(), least_key);
    EXPECT_NE(read_key(one)->bytes(), read_key(two)->bytes());
    const auto before = std::string(read_key(one)->bytes());
    EXPECT_FALSE(make_key(one));
    EXPECT_EQ(read_key(one)->bytes(), before);
    EXPECT_FALSE(make_key((folder / "none" / "key").string()));
}

TEST(Hmac, IsThatOfRfc4231) { // test case 2
    const auto digest = hmac("Jefe", "what do ya want for nothing?");
    const std::array<unsigned char, 4> first{0x5b, 0xdc, 0xc1, 0x46}, last{0x64, 0xec, 0x38, 0x43};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(static_cast<unsigned char>(digest[i]), first[i]);
        EXPECT_EQ(static_cast<unsigned char>(digest[28 + i]), last[i]);
    }
}

TEST_F(Folder, AgentConfigTakesItsKeysAndFillsTheOthers) {
    const auto key = write("key", std::string(64, 'a'));
    const auto config =
        read_agent_config(write("conf", "site = \"s1\"\nkey_file = \"" + key +
                                            "\"\nallow = [\"192.0.2.0/24\", \"2001:db8::7\"]\n"
                                            "most_gbps = 1\nstreams = 8\n"));
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->listen, "[::]:7711");
    EXPECT_EQ(config->most_gbps, 1);
    EXPECT_EQ(config->streams, 8);
    EXPECT_TRUE(config->admits(address("192.0.2.9")));
    EXPECT_TRUE(config->admits(address("2001:db8::7")));
    EXPECT_FALSE(config->admits(address("198.51.100.1")));
}

TEST_F(Folder, WhatIsWrongInAnAgentConfigIsNamedWithItsPlace) {
    const auto key = "key_file = \"" + write("key", std::string(64, 'a')) + "\"\n";
    const std::string site = "site = \"s1\"\n", allow = "allow = [\"192.0.2.0/24\"]\n";
    for (const auto &[text, complaint] : std::vector<std::pair<std::string, std::string>>{
             {site + key + allow + "nope = 1\n", ":4:1: unknown key 'nope'; known: site, listen, "},
             {key + allow, ": site: expected letters"},
             {"site = \"a b\"\n" + key + allow, ":1:8: site: expected letters"},
             {site + key, ": allow: expected the addresses"},
             {site + key + "allow = []\n", ":3:9: allow: expected the addresses"},
             {site + key + "allow = [\"192.0.2.0/24\", \"dtn\"]\n", ":3:26: allow: expected an address or"},
             {site + allow, ": key_file: expected the path of a key"},
             {site + allow + "key_file = \"/none\"\n", ":3:12: key_file: /none: No such file"},
             {site + key + allow + "listen = \"7711\"\n", ":4:10: listen: expected an address and a port"},
             {site + key + allow + "streams = 17\n",
              ":4:11: streams: expected a whole number between 1 and 16"},
             {site + key + allow + "most_gbps = -1\n", ":4:13: most_gbps: expected a number, 0 or more"},
             {site + key + allow + "daily_gbytes = 0\n", ":4:16: daily_gbytes: expected a number above 0"},
             {site + "site", ":2:5: "},
         }) {
        const auto path = write("conf", text);
        const auto config = read_agent_config(path);
        ASSERT_FALSE(config) << text;
        EXPECT_EQ(config.error().what.rfind(path, 0), 0u) << config.error().what;
        EXPECT_NE(config.error().what.find(complaint), std::string::npos) << config.error().what;
    }
}

} // namespace
} // namespace spider::probe
