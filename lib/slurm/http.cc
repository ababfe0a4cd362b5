// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/http.h"

#include "util/text.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>

namespace spider::slurm {
namespace {

struct Transfer {
    Request request;
    Http::Done done;
    Seconds began = 0;
    std::string where; // host:port or the socket's path, for people
    std::string body;
    bool too_large = false;
    CURL *easy = nullptr;
    curl_slist *headers = nullptr;

    Transfer() = default;
    Transfer(const Transfer &) = delete;
    Transfer &operator=(const Transfer &) = delete;
    ~Transfer() {
        if (easy) curl_easy_cleanup(easy);
        curl_slist_free_all(headers);
    }
    [[nodiscard]] Seconds deadline() const { return began + request.timeout; }
};
using Held = std::unique_ptr<Transfer>;

struct Lane {
    int flying = 0;
    std::deque<Held> waiting;
};

Seconds now() { return util::SystemClock().elapsed(); }

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

// "host:port" of a url, or nothing when it is none of ours.
std::optional<std::string> host_and_port(const std::string &url) {
    if (has_control(url)) return {};
    std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
    if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
    std::string parts[3];
    const CURLUPart wanted[3] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    for (int i = 0; i < 3; ++i) {
        char *text = nullptr;
        if (curl_url_get(parsed.get(), wanted[i], &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
        parts[i] = text;
        curl_free(text);
    }
    if (parts[0] != "http" && parts[0] != "https") return {};
    return parts[1] + ":" + parts[2];
}

// What curl would send as something else than it is, or nothing when the request is sound.
std::optional<Error> objection(const Request &request, const std::optional<std::string> &where) {
    if (!where) return Error{Errc::invalid, "not an http or https url"};
    if (!(request.timeout > 0)) return Error{Errc::invalid, *where + ": the timeout is not positive"};
    const auto letter = [](char c) { return c >= 'A' && c <= 'Z'; };
    if (request.method.empty() || !std::all_of(request.method.begin(), request.method.end(), letter))
        return Error{Errc::invalid, *where + ": not a request method"};
    for (const auto &[name, value] : request.headers)
        if (name.empty() || has_control(name) || has_control(value) || name.find_first_of(": ;") != name.npos)
            return Error{Errc::invalid, *where + ": a header holds a character that cannot be sent"};
    return {};
}

std::size_t keep_body(char *data, std::size_t size, std::size_t count, void *user) noexcept {
    auto &transfer = *static_cast<Transfer *>(user);
    const std::size_t bytes = size * count;
    if (bytes > largest_body - transfer.body.size()) {
        transfer.too_large = true;
        return 0;
    }
    transfer.body.append(data, bytes);
    return bytes;
}

curl_socket_t open_socket(void *, curlsocktype, curl_sockaddr *address) noexcept {
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

long milliseconds(Seconds seconds) {
    return static_cast<long>(std::ceil(std::clamp(seconds, 0.001, 86400.0) * 1000)); // 0 would mean: no limit
}

void set_limits(Transfer &transfer) {
    CURL *easy = transfer.easy;
    const Seconds left = transfer.deadline() - now();
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(left));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(std::min(left, longest_connect)));
    curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(largest_body));
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

void set_request(Transfer &transfer) {
    CURL *easy = transfer.easy;
    const Request &request = transfer.request;
    for (const auto &[name, value] : request.headers) {
        const std::string line = value.empty() ? name + ";" : name + ": " + value;
        transfer.headers = curl_slist_append(transfer.headers, line.c_str());
    }
    transfer.headers = curl_slist_append(transfer.headers, "Expect:"); // slurmrestd never says "100 Continue"
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "spiderflow");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
    if (!request.unix_socket.empty())
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
    if (!request.body.empty() || request.method == "POST") {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    // On a connection that died in reuse curl sends the request again, a POST too: a job would be submitted
    // twice.
    if (request.method != "GET") curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
}

Error failure(const Transfer &transfer, CURLcode code) {
    curl_off_t sending = 0; // when the request began to go out, in microseconds
    curl_easy_getinfo(transfer.easy, CURLINFO_PRETRANSFER_TIME_T, &sending);
    const std::string in = " within " + util::number(transfer.request.timeout, 3) + " s";
    if (transfer.too_large || code == CURLE_FILESIZE_EXCEEDED)
        return {Errc::protocol, transfer.where + ": the answer is larger than " +
                                    std::to_string(largest_body >> 20) + " MiB"};
    if (code == CURLE_OPERATION_TIMEDOUT && sending > 0)
        return {Errc::timeout, transfer.where + ": no answer" + in};
    if (sending > 0) return {Errc::protocol, transfer.where + ": bad answer: " + curl_easy_strerror(code)};
    if (code == CURLE_OPERATION_TIMEDOUT)
        return {Errc::unreachable, transfer.where + ": cannot connect in time"};
    long number = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_OS_ERRNO, &number);
    const bool system = code == CURLE_COULDNT_CONNECT && number != 0;
    const char *why = system ? std::strerror(static_cast<int>(number)) : curl_easy_strerror(code);
    return {Errc::unreachable, transfer.where + ": cannot connect: " + why};
}

} // namespace

class Http::Engine {
  public:
    Engine() {
        static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
        if (ready == CURLE_OK) multi_ = curl_multi_init();
    }
    ~Engine() {
        cancel_all();
        if (multi_) curl_multi_cleanup(multi_);
    }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    void start(Request request, Done done);
    void turn(Seconds longest);
    void cancel_all();
    void wake() { curl_multi_wakeup(multi_); }
    [[nodiscard]] std::size_t pending() const;

  private:
    struct Ready {
        Done done;
        Result<Reply> result;
    };
    void launch(const std::string &name);
    bool send(Transfer &transfer);
    void collect();
    void expire();
    void finish(CURL *easy, CURLcode code);
    [[nodiscard]] Seconds wait_at_most(Seconds longest) const;

    CURLM *multi_ = nullptr;
    std::map<std::string, Lane> lanes_;
    std::vector<Held> flying_;
    std::deque<Ready> ready_;
};

void Http::Engine::start(Request request, Done done) {
    auto where = host_and_port(request.url);
    if (where && !request.unix_socket.empty()) where = request.unix_socket;
    auto wrong = objection(request, where);
    if (!wrong && !multi_) wrong = Error{Errc::system, *where + ": libcurl cannot be initialised"};
    if (wrong) {
        ready_.push_back({std::move(done), std::move(*wrong)});
        return;
    }
    auto transfer = std::make_unique<Transfer>();
    transfer->began = now();
    transfer->where = std::move(*where);
    transfer->request = std::move(request);
    transfer->done = std::move(done);
    if (transfer->request.lane.empty()) transfer->request.lane = transfer->where;
    const std::string name = transfer->request.lane;
    lanes_[name].waiting.push_back(std::move(transfer));
    launch(name);
}

// Fills the lane's places; forgets the lane when nothing is left in it.
void Http::Engine::launch(const std::string &name) {
    const auto lane = lanes_.find(name);
    if (lane == lanes_.end()) return;
    while (lane->second.flying < requests_per_lane && !lane->second.waiting.empty()) {
        Held transfer = std::move(lane->second.waiting.front());
        lane->second.waiting.pop_front();
        if (!send(*transfer)) {
            ready_.push_back(
                {std::move(transfer->done), Error{Errc::system, transfer->where + ": libcurl refused"}});
            continue;
        }
        ++lane->second.flying;
        flying_.push_back(std::move(transfer));
    }
    if (lane->second.flying == 0 && lane->second.waiting.empty()) lanes_.erase(lane);
}

bool Http::Engine::send(Transfer &transfer) {
    transfer.easy = curl_easy_init();
    if (!transfer.easy) return false;
    set_limits(transfer);
    set_request(transfer);
    curl_easy_setopt(transfer.easy, CURLOPT_PRIVATE, &transfer);
    curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, keep_body);
    curl_easy_setopt(transfer.easy, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(transfer.easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    return curl_multi_add_handle(multi_, transfer.easy) == CURLM_OK;
}

Seconds Http::Engine::wait_at_most(Seconds longest) const {
    if (!ready_.empty()) return 0;
    Seconds until = std::numeric_limits<Seconds>::infinity();
    for (const auto &[name, lane] : lanes_)
        for (const auto &transfer : lane.waiting)
            until = std::min(until, transfer->deadline());
    return std::max(0.0, std::min(longest, until - now()));
}

void Http::Engine::turn(Seconds longest) {
    if (multi_) {
        collect();
        if (const Seconds wait = wait_at_most(longest); wait > 0) {
            curl_multi_poll(multi_, nullptr, 0, static_cast<int>(milliseconds(wait)), nullptr);
            collect();
        }
        expire();
    }
    // Only what is ready now: a callback that starts a senseless request must not keep us here.
    for (std::size_t left = ready_.size(); left > 0 && !ready_.empty(); --left) {
        Ready next = std::move(ready_.front());
        ready_.pop_front();
        if (next.done) next.done(std::move(next.result));
    }
}

void Http::Engine::collect() {
    int running = 0;
    curl_multi_perform(multi_, &running);
    int left = 0;
    while (const CURLMsg *message = curl_multi_info_read(multi_, &left))
        if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
}

void Http::Engine::finish(CURL *easy, CURLcode code) {
    const auto found =
        std::find_if(flying_.begin(), flying_.end(), [easy](const Held &held) { return held->easy == easy; });
    if (found == flying_.end()) return;
    const Held transfer = std::move(*found);
    flying_.erase(found);
    curl_multi_remove_handle(multi_, easy);
    if (code == CURLE_OK) {
        long status = 0;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        Reply reply{static_cast<int>(status), std::move(transfer->body), now() - transfer->began};
        ready_.push_back({std::move(transfer->done), std::move(reply)});
    } else {
        ready_.push_back({std::move(transfer->done), failure(*transfer, code)});
    }
    --lanes_[transfer->request.lane].flying;
    launch(transfer->request.lane);
}

// Those that wait in their lane past their time were never sent.
void Http::Engine::expire() {
    const Seconds at = now();
    for (auto &[name, lane] : lanes_)
        for (auto waiting = lane.waiting.begin(); waiting != lane.waiting.end();) {
            Transfer &transfer = **waiting;
            if (transfer.deadline() > at) {
                ++waiting;
                continue;
            }
            ready_.push_back({std::move(transfer.done),
                              Error{Errc::timeout, transfer.where + ": not asked within " +
                                                       util::number(transfer.request.timeout, 3) +
                                                       " s: earlier requests to it are unanswered"}});
            waiting = lane.waiting.erase(waiting);
        }
}

void Http::Engine::cancel_all() {
    for (const auto &transfer : flying_)
        curl_multi_remove_handle(multi_, transfer->easy);
    flying_.clear();
    lanes_.clear();
    ready_.clear();
}

std::size_t Http::Engine::pending() const {
    std::size_t waiting = 0;
    for (const auto &[name, lane] : lanes_)
        waiting += lane.waiting.size();
    return waiting + flying_.size() + ready_.size();
}

Http::Http() : engine_(std::make_unique<Engine>()) {}
Http::~Http() = default;
void Http::start(Request request, Done done) { engine_->start(std::move(request), std::move(done)); }
void Http::turn(Seconds longest) { engine_->turn(longest); }
void Http::wake() { engine_->wake(); }
void Http::cancel_all() { engine_->cancel_all(); }
std::size_t Http::pending() const { return engine_->pending(); }

} // namespace spider::slurm
