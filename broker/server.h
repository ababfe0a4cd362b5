// SPDX-License-Identifier: GPL-3.0-or-later
// The HTTP server on the unix socket (libmicrohttpd, a thread a connection). It proves who calls and limits
// what they send; what is answered is decided by the handler, which runs in the server's threads.
#pragma once

#include "util/fd.h"
#include "util/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

struct MHD_Daemon;

namespace spider::broker {

struct ApiRequest {
    std::string method;
    std::string path;
    bool all = false; // ?all=1
    std::string body;
    std::uint32_t uid = 0; // of the caller's process, from the socket (SO_PEERCRED)
};

struct ApiReply {
    int status = 200;
    std::string body;
    std::string type = "application/json";
};

using Handler = std::function<ApiReply(const ApiRequest &)>;

class Server {
  public:
    // Replaces a stale socket, never a live one (Errc::refused: another spiderflowd answers there).
    static Result<std::unique_ptr<Server>> open(const std::string &socket, Handler handler);
    static bool answers(const std::string &socket); // a server, there
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    [[nodiscard]] ApiReply handle(const ApiRequest &request) const { return handler_(request); }

  private:
    Server(std::string socket, Handler handler) : socket_(std::move(socket)), handler_(std::move(handler)) {}

    std::string socket_;
    Handler handler_;
    MHD_Daemon *daemon_ = nullptr;
};

} // namespace spider::broker
