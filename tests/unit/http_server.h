// SPDX-License-Identifier: GPL-3.0-or-later
// A tiny HTTP server for tests: own threads, raw sockets on 127.0.0.1 or a unix socket. A handler gets one
// whole request and gives the bytes to send back; nothing ("") closes the connection without an answer.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace spider::test {

inline std::string answer(const std::string &body, const std::string &status = "200 OK",
                          const std::string &more = "") {
    return "HTTP/1.1 " + status + "\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

class Server {
  public:
    using Handler = std::function<std::string(const std::string &request)>;

    explicit Server(Handler handler, const std::string &unix_path = "") : handler_(std::move(handler)) {
        sockaddr_un local{};
        sockaddr_in inet{};
        local.sun_family = AF_UNIX;
        inet.sin_family = AF_INET;
        inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        unix_path.copy(local.sun_path, sizeof local.sun_path - 1);
        listener_ = socket(unix_path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int bound = unix_path.empty()
                              ? bind(listener_, reinterpret_cast<sockaddr *>(&inet), sizeof inet)
                              : bind(listener_, reinterpret_cast<sockaddr *>(&local), sizeof local);
        if (bound != 0 || listen(listener_, 64) != 0) std::abort();
        socklen_t size = sizeof inet;
        if (unix_path.empty()) getsockname(listener_, reinterpret_cast<sockaddr *>(&inet), &size);
        port_ = ntohs(inet.sin_port);
        acceptor_ = std::thread([this] { accept_all(); });
    }
    ~Server() {
        shutdown(listener_, SHUT_RDWR);
        acceptor_.join();
        {
            const std::lock_guard lock(mutex_);
            for (const int fd : open_)
                shutdown(fd, SHUT_RDWR);
        }
        for (auto &thread : threads_)
            thread.join();
        close(listener_);
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    [[nodiscard]] std::string where() const { return "127.0.0.1:" + std::to_string(port_); }
    [[nodiscard]] std::string url(const std::string &path = "/") const { return "http://" + where() + path; }
    [[nodiscard]] int connections() const { return locked(accepted_); }
    [[nodiscard]] std::vector<std::string> requests() const { return locked(requests_); }
    [[nodiscard]] int most_at_once() const { return locked(most_); }

  private:
    template <class T>
    T locked(const T &value) const {
        const std::lock_guard lock(mutex_);
        return value;
    }
    void accept_all() {
        for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            const std::lock_guard lock(mutex_);
            ++accepted_;
            open_.push_back(fd);
            threads_.emplace_back([this, fd] { serve(fd); });
        }
    }
    void serve(int fd) {
        std::string buffer;
        while (true) {
            const std::string request = next_request(fd, buffer);
            if (request.empty()) break;
            note(request);
            const std::string reply = handler_(request);
            {
                const std::lock_guard lock(mutex_);
                --at_once_;
            }
            if (reply.empty() || !send_all(fd, reply)) break;
            if (reply.find("Connection: close\r\n") < reply.find("\r\n\r\n")) break;
        }
        const std::lock_guard lock(mutex_);
        open_.erase(std::find(open_.begin(), open_.end(), fd));
        close(fd);
    }
    void note(const std::string &request) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        most_ = std::max(most_, ++at_once_);
    }
    static bool send_all(int fd, const std::string &text) {
        for (std::size_t sent = 0; sent < text.size();) {
            const ssize_t now = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
            if (now <= 0) return false;
            sent += static_cast<std::size_t>(now);
        }
        return true;
    }
    // Head and body of the next request on this connection; "" at its end.
    static std::string next_request(int fd, std::string &buffer) {
        while (true) {
            if (const auto end = buffer.find("\r\n\r\n"); end != buffer.npos) {
                const auto length = buffer.find("Content-Length: ");
                const std::size_t body =
                    length < end ? std::strtoul(buffer.c_str() + length + 16, nullptr, 10) : 0;
                if (buffer.size() >= end + 4 + body) {
                    const std::string request = buffer.substr(0, end + 4 + body);
                    buffer.erase(0, request.size());
                    return request;
                }
            }
            char chunk[65536];
            const ssize_t got = recv(fd, chunk, sizeof chunk, 0);
            if (got <= 0) return "";
            buffer.append(chunk, static_cast<std::size_t>(got));
        }
    }

    Handler handler_;
    int listener_ = -1;
    int port_ = 0;
    mutable std::mutex mutex_;
    std::vector<int> open_;
    std::vector<std::string> requests_;
    int accepted_ = 0;
    int at_once_ = 0;
    int most_ = 0;
    std::vector<std::thread> threads_;
    std::thread acceptor_;
};

} // namespace spider::test
