// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/http.h"
#include "unit/http_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <optional>

namespace spider::slurm {
namespace {

using test::answer;
using test::Server;

// Holds requests in the server until it is opened.
class Gate {
  public:
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

Seconds now() { return util::SystemClock().elapsed(); }

// Turns until `done`, at most 30 s: long enough for any machine, reached only by a broken client.
template <class Done>
bool turn_until(Http &http, Done done) {
    for (const Seconds end = now() + 30; now() < end;) {
        if (done()) return true;
        http.turn(0.05);
    }
    return done();
}

Request request(const std::string &url, Seconds timeout = 30) {
    Request made;
    made.url = url;
    made.timeout = timeout;
    return made;
}

Result<Reply> ask(Http &http, Request what) {
    std::optional<Result<Reply>> got;
    http.start(std::move(what), [&](Result<Reply> result) { got = std::move(result); });
    if (!turn_until(http, [&] { return got.has_value(); })) return Error{Errc::system, "no callback in 30 s"};
    return std::move(*got);
}

std::string first_line(const std::string &text) { return text.substr(0, text.find('\r')); }

TEST(Http, GivesStatusAndBodyOfAnyAnswer) {
    Server server([](const std::string &) { return answer("not here", "404 Not Found"); });
    Http http;
    auto got = ask(http, request(server.url("/x?y=1")));
    ASSERT_TRUE(got.ok()) << got.error().what;
    EXPECT_EQ(got->status, 404);
    EXPECT_EQ(got->body, "not here");
    EXPECT_EQ(first_line(server.requests().at(0)), "GET /x?y=1 HTTP/1.1");
    EXPECT_EQ(http.pending(), 0u);
}

TEST(Http, SendsMethodHeadersAndBodyAsGiven) {
    Server server([](const std::string &) { return answer("{}"); });
    Http http;
    auto post = request(server.url("/job"));
    post.method = "POST";
    post.headers = {{"X-SLURM-USER-NAME", "sfalice"}, {"X-Empty", ""}, {"Content-Type", "application/json"}};
    post.body = std::string(2 << 20, 'x'); // so large that curl on its own would wait for "100 Continue"
    ASSERT_TRUE(ask(http, post).ok());
    auto cancel = request(server.url("/job/3"));
    cancel.method = "DELETE";
    ASSERT_TRUE(ask(http, cancel).ok());

    const auto seen = server.requests();
    const std::string head = seen.at(0).substr(0, seen.at(0).find("\r\n\r\n"));
    EXPECT_EQ(first_line(head), "POST /job HTTP/1.1");
    EXPECT_NE(head.find("\r\nX-SLURM-USER-NAME: sfalice\r\n"), head.npos) << head;
    EXPECT_NE(head.find("\r\nX-Empty:"), head.npos) << head;
    EXPECT_NE(head.find("\r\nContent-Type: application/json"), head.npos) << head;
    EXPECT_EQ(head.find("Expect"), head.npos) << head;
    EXPECT_EQ(head.find("urlencoded"), head.npos) << head;
    EXPECT_EQ(seen.at(0).size(), head.size() + 4 + post.body.size());
    EXPECT_EQ(first_line(seen.at(1)), "DELETE /job/3 HTTP/1.1");
}

TEST(Http, ReadsShareOneConnection) {
    Server server([](const std::string &) { return answer("{}"); });
    Http http;
    for (int i = 0; i < 4; ++i)
        ASSERT_TRUE(ask(http, request(server.url())).ok());
    EXPECT_EQ(server.requests().size(), 4u);
    EXPECT_EQ(server.connections(), 1);
}

// curl repeats a request whose reused connection died unanswered; a submission must never be repeated.
TEST(Http, AWriteIsSentOnceEvenWhenTheServerHangsUp) {
    Server server(
        [](const std::string &what) { return what.starts_with("GET") ? answer("{}") : std::string(); });
    Http http;
    ASSERT_TRUE(ask(http, request(server.url())).ok());
    auto submit = request(server.url("/submit"));
    submit.method = "POST";
    submit.body = "{}";
    auto got = ask(http, submit);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::protocol); // it may have happened
    const auto seen = server.requests();
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](auto &what) { return what.starts_with("POST"); }),
              1);
}

TEST(Http, HasTwoRequestsPerLaneInFlightAndTheRestWaitInOrder) {
    Gate gate;
    Server slow([&](const std::string &) { return gate.pass(), answer("slow"); });
    Server quick([](const std::string &) { return answer("quick"); });
    Http http;
    std::vector<std::string> finished;
    for (int i = 0; i < 6; ++i) {
        auto what = request(slow.url("/" + std::to_string(i)));
        what.lane = "lyra";
        http.start(what,
                   [&, i](Result<Reply> got) { finished.push_back(got.ok() ? std::to_string(i) : "error"); });
    }
    ASSERT_TRUE(turn_until(http, [&] { return slow.requests().size() == 2; }));
    for (int i = 0; i < 3;
         ++i) { // another lane is not held up, and these round trips would show a third request
        auto what = request(quick.url());
        what.lane = "vega";
        ASSERT_TRUE(ask(http, what).ok());
    }
    EXPECT_EQ(slow.requests().size(), 2u);
    EXPECT_EQ(http.pending(), 6u);
    gate.open();
    ASSERT_TRUE(turn_until(http, [&] { return finished.size() == 6; }));
    EXPECT_EQ(slow.most_at_once(), 2);
    EXPECT_EQ(std::count(finished.begin(), finished.end(), "error"), 0);
    // Two in flight may overtake each other on their way to the server, but nobody can jump the queue.
    const auto seen = slow.requests();
    for (int place = 0; place < 6; ++place)
        EXPECT_LE(std::stoi(seen[static_cast<std::size_t>(place)].substr(5, 1)), place + 1);
}

TEST(Http, ASilentServerIsATimeoutThatNamesIt) {
    Gate gate;
    Server server([&](const std::string &) { return gate.pass(), answer(""); });
    Http http;
    auto what = request(server.url(), 1);
    what.headers = {{"X-SLURM-USER-TOKEN", "s3cret"}};
    const Seconds began = now();
    auto got = ask(http, what);
    EXPECT_GE(now() - began, 0.99);
    gate.open();
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::timeout);
    EXPECT_EQ(got.error().what, server.where() + ": no answer within 1 s");
}

TEST(Http, TimeInTheLaneCounts) {
    Gate gate;
    Server server([&](const std::string &) { return gate.pass(), answer(""); });
    Http http;
    for (int i = 0; i < 2; ++i)
        http.start(request(server.url()), [](Result<Reply>) {});
    auto third = ask(http, request(server.url("/third"), 1));
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.error().code, Errc::timeout);
    EXPECT_NE(third.error().what.find("not asked"), std::string::npos) << third.error().what;
    EXPECT_LE(server.requests().size(), 2u);
    for (const auto &seen : server.requests())
        EXPECT_EQ(seen.find("/third"), seen.npos);
    gate.open();
}

TEST(Http, ARefusedConnectionIsUnreachable) {
    std::string where;
    {
        where = Server([](const std::string &) { return answer(""); }).where();
    }
    Http http;
    auto what = request("http://" + where + "/secret-path");
    what.method = "POST";
    what.headers = {{"X-SLURM-USER-TOKEN", "s3cret"}};
    what.body = "s3cret";
    auto got = ask(http, what);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::unreachable);
    EXPECT_EQ(got.error().what, where + ": cannot connect: Connection refused");
}

TEST(Http, AnAnswerOverTheLimitIsRefused) {
    const std::string endless =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(largest_body + 1, 'x');
    Server server([&](const std::string &what) {
        if (what.starts_with("GET /endless")) return endless;
        return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(largest_body + 1) + "\r\n\r\nx";
    });
    Http http;
    for (const char *path : {"/announced", "/endless"}) {
        auto got = ask(http, request(server.url(path)));
        ASSERT_FALSE(got.ok()) << path;
        EXPECT_EQ(got.error(),
                  (Error{Errc::protocol, server.where() + ": the answer is larger than 64 MiB"}));
    }
}

TEST(Http, SomethingElseThanHttpIsAProtocolError) {
    Server server([](const std::string &what) -> std::string {
        if (what.starts_with("GET /cut"))
            return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nx";
        return "SSH-2.0-OpenSSH_9.2 s3cret\r\n";
    });
    Http http;
    for (const char *path : {"/garbage", "/cut"}) {
        auto got = ask(http, request(server.url(path)));
        ASSERT_FALSE(got.ok()) << path;
        EXPECT_EQ(got.error().code, Errc::protocol) << got.error().what;
        EXPECT_TRUE(got.error().what.starts_with(server.where() + ": bad answer")) << got.error().what;
        EXPECT_EQ(got.error().what.find("s3cret"), std::string::npos) << got.error().what;
    }
}

TEST(Http, FollowsNoRedirectAndNoProxy) {
    Server other([](const std::string &) { return answer("elsewhere"); });
    Server server(
        [&](const std::string &) { return answer("", "302 Found", "Location: " + other.url() + "\r\n"); });
    setenv("http_proxy", other.url().c_str(), 1);
    setenv("all_proxy", other.url().c_str(), 1);
    Http http;
    auto got = ask(http, request(server.url()));
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    ASSERT_TRUE(got.ok()) << got.error().what;
    EXPECT_EQ(got->status, 302);
    EXPECT_TRUE(other.requests().empty());
}

TEST(Http, SpeaksOverAUnixSocket) {
    const std::string path = testing::TempDir() + "http_test." + std::to_string(getpid());
    Http http;
    auto what = request("http://slurmrestd/ping");
    what.unix_socket = path;
    auto nobody = ask(http, what);
    ASSERT_FALSE(nobody.ok());
    EXPECT_EQ(nobody.error().code, Errc::unreachable);
    EXPECT_TRUE(nobody.error().what.starts_with(path + ": cannot connect")) << nobody.error().what;

    Server server([](const std::string &) { return answer("here"); }, path);
    auto got = ask(http, what);
    unlink(path.c_str());
    ASSERT_TRUE(got.ok()) << got.error().what;
    EXPECT_EQ(got->body, "here");
}

TEST(Http, RefusesSenselessRequestsInTheCallback) {
    Http http;
    auto file = request("file:///etc/passwd");
    auto split_line = request("http://127.0.0.1:1/");
    split_line.headers = {{"X-SLURM-USER-TOKEN", "s3cret\r\nX-SLURM-USER-NAME: root"}};
    auto no_time = request("http://127.0.0.1:1/", 0);
    auto no_method = request("http://127.0.0.1:1/");
    no_method.method = "GET / HTTP/1.1\r\n";
    for (const auto &what :
         {file, request("http://"), request("http://h/\r\nx"), split_line, no_time, no_method}) {
        bool at_once = true;
        std::optional<Error> error;
        http.start(what, [&](Result<Reply> got) {
            EXPECT_FALSE(at_once) << "start() must not call back itself";
            ASSERT_FALSE(got.ok());
            error = got.error();
        });
        at_once = false;
        http.turn(30);
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->code, Errc::invalid) << error->what;
        EXPECT_EQ(error->what.find("s3cret"), std::string::npos) << error->what;
    }
}

TEST(Http, ACallbackMayStartFurtherRequests) {
    Server server([](const std::string &) { return answer("{}"); });
    Http http;
    int left = 20;
    std::function<void(Result<Reply>)> next = [&](Result<Reply> got) {
        ASSERT_TRUE(got.ok());
        if (--left > 0) http.start(request(server.url()), next);
    };
    http.start(request(server.url()), next);
    EXPECT_TRUE(turn_until(http, [&] { return left == 0; }));
    EXPECT_EQ(server.requests().size(), 20u);
}

TEST(Http, WakeEndsTheWait) {
    Http http;
    const Seconds began = now();
    std::thread waker([&] { http.wake(); });
    http.turn(60);
    EXPECT_LT(now() - began, 30);
    waker.join();
}

TEST(Http, WithoutAnythingToDoATurnWaitsItsTime) {
    Http http;
    const Seconds began = now();
    http.turn(0.2);
    EXPECT_GE(now() - began, 0.19);
}

TEST(Http, WhatIsCancelledNeverCallsBack) {
    Gate gate;
    Server server([&](const std::string &) { return gate.pass(), answer(""); });
    int calls = 0;
    const auto count = [&](const Result<Reply> &) { ++calls; };
    {
        Http http;
        for (int i = 0; i < 5; ++i)
            http.start(request(server.url()), count);
        http.start(request("file:///"), count);
        ASSERT_TRUE(turn_until(http, [&] { return server.requests().size() == 2; }));
        EXPECT_EQ(calls, 1); // the senseless one
        http.cancel_all();
        EXPECT_EQ(http.pending(), 0u);
        http.turn(0);
        for (int i = 0; i < 3; ++i)
            http.start(request(server.url()), count);
        http.start(request("file:///"), count);
    }
    gate.open();
    EXPECT_EQ(calls, 1);
}

} // namespace
} // namespace spider::slurm
