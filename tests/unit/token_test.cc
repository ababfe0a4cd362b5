// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/token.h"
#include "unit/jwt.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spider::broker {
namespace {

using test::base64url;
using test::jwt;

Seconds expiry(const std::string &token) {
    const auto read = expiry_of(token);
    EXPECT_TRUE(read) << token << ": " << read.error().what;
    return read ? *read : -1;
}

TEST(Token, SaysWhenItExpires) {
    // Encoded by Python, with the claims of `scontrol token`.
    EXPECT_EQ(expiry("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
                     "eyJleHAiOjE3OTYwNDcyMDAsImlhdCI6MTc5NjA0NTQwMCwic3VuIjoic2x1cm0ifQ."
                     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
              1796047200);
    EXPECT_EQ(expiry(jwt(R"({"exp":1700000000,"iat":1,"sun":"slurm"})")), 1700000000);
    EXPECT_EQ(expiry(jwt(R"({"exp":1700000000.5})")), 1700000000.5);
    EXPECT_EQ(expiry(jwt(R"({"exp":1.7e9})")), 1700000000);
}

TEST(Token, WithoutATimeSaysZeroAndOfTheOldestTimesDoesNot) {
    EXPECT_EQ(expiry(jwt(R"({"sun":"slurm"})")), 0);
    EXPECT_EQ(expiry(jwt(R"({"exp":null})")), 0);
    EXPECT_EQ(expiry(jwt("{}")), 0);
    EXPECT_GT(expiry(jwt(R"({"exp":0})")), 0);
    EXPECT_GT(expiry(jwt(R"({"exp":-5})")), 0);
}

TEST(Token, OfEveryLengthIsReadWithPaddingAndWithout) {
    for (const auto *claims : {R"({"exp":7,"a":""})", R"({"exp":7,"a":"?"})", R"({"exp":7,"a":"~?"})"}) {
        EXPECT_EQ(expiry(jwt(claims)), 7) << claims;
        EXPECT_EQ(expiry(jwt(claims, true)), 7) << claims;
    }
    EXPECT_NE(base64url("{\"a\":\"\xC3\xBE\xC3\xBF?~\"}").find_first_of("-_"), std::string::npos);
    EXPECT_EQ(expiry(jwt("{\"exp\":7,\"a\":\"\xC3\xBE\xC3\xBF?~\"}")), 7);
}

TEST(Token, ThatIsNoneIsAnErrorThatQuotesNothingOfIt) {
    const std::string secret = "aGVsbG8";
    const auto head = base64url(R"({"alg":"HS256"})");
    const std::string nested(1000, '[');
    const std::vector<std::string> none{"",
                                        secret,
                                        head + "." + secret,
                                        head + "." + secret + "." + secret,
                                        head + "." + secret + "." + secret + "." + secret,
                                        head + ".." + secret,
                                        "..",
                                        head + ".!!!!.x",
                                        head + ".e.x",
                                        head + ".e3=0." + secret,
                                        head + ".e30===." + secret,
                                        head + ".=." + secret,
                                        jwt("[7]"),
                                        jwt("7"),
                                        jwt("{\"exp\":7"),
                                        jwt(nested),
                                        jwt("{\"exp\":1e999}"),
                                        jwt(R"({"exp":"1700000000"})"),
                                        jwt(R"({"exp":true})"),
                                        jwt(R"({"exp":{}})"),
                                        jwt("\xFF\xFE{}")};
    for (const auto &token : none) {
        const auto read = expiry_of(token);
        ASSERT_FALSE(read) << token;
        EXPECT_EQ(read.error().code, Errc::invalid);
        EXPECT_TRUE(read.error().what == "not a JWT" ||
                    read.error().what == "not a JWT: its exp is no number")
            << read.error().what;
    }
}

TEST(Token, ThatIsHugeIsRead) {
    EXPECT_EQ(expiry(jwt(R"({"a":")" + std::string(60000, 'x') + R"(","exp":7})")), 7);
    EXPECT_EQ(expiry(jwt(R"({"exp":18446744073709551615})")), 18446744073709551615.0);
    EXPECT_FALSE(expiry_of(std::string(65536, '.')));
    EXPECT_FALSE(expiry_of(std::string(65536, 'e')));
}

} // namespace
} // namespace spider::broker
