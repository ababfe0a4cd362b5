// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/server.h"

#include "wire/messages.h"

#include <microhttpd.h>

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace spider::broker {
namespace {

// A batch script with what travels in it, at most settings.h's largest_script, and an environment.
constexpr std::size_t largest_body = 24u << 20;
constexpr unsigned connections = 128;
constexpr unsigned idle_seconds = 75; // longer than the slowest answer (placing)

struct Incoming {
    ApiRequest request;
    bool too_large = false;
};

MHD_Result answer(MHD_Connection *connection, const ApiReply &reply) {
    auto *response = MHD_create_response_from_buffer(reply.body.size(), const_cast<char *>(reply.body.data()),
                                                     MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", reply.type.c_str());
    const auto queued = MHD_queue_response(connection, static_cast<unsigned>(reply.status), response);
    MHD_destroy_response(response);
    return queued;
}

ApiReply refusal(int status, std::string_view why) {
    return {status, model::print_json(wire::error_json(why))};
}

bool find_peer(MHD_Connection *connection, std::uint32_t &uid) {
    const auto *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    ucred peer{};
    socklen_t size = sizeof peer;
    if (info == nullptr || ::getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    uid = peer.uid;
    return true;
}

MHD_Result handle_some(void *self, MHD_Connection *connection, const char *url, const char *method,
                       const char *, const char *data, std::size_t *size, void **state) noexcept {
    try {
        auto *incoming = static_cast<Incoming *>(*state);
        if (incoming == nullptr) {
            auto fresh = std::make_unique<Incoming>();
            fresh->request.method = method;
            fresh->request.path = url;
            const auto *all = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "all");
            fresh->request.all = all != nullptr && std::string_view(all) == "1";
            *state = fresh.release();
            return MHD_YES;
        }
        if (*size > 0) {
            auto &body = incoming->request.body;
            if (body.size() + *size > largest_body)
                incoming->too_large = true;
            else
                body.append(data, *size);
            *size = 0;
            return MHD_YES;
        }
        if (incoming->too_large) return answer(connection, refusal(413, "request larger than 24 MiB"));
        if (!find_peer(connection, incoming->request.uid))
            return answer(connection, refusal(403, "no peer credentials"));
        return answer(connection, static_cast<const Server *>(self)->handle(incoming->request));
    } catch (...) {
        return MHD_NO; // closes the connection
    }
}

void forget(void *, MHD_Connection *, void **state, MHD_RequestTerminationCode) {
    delete static_cast<Incoming *>(*state);
    *state = nullptr;
}

Error failed(const std::string &socket, const std::string &why) {
    return {Errc::system, "socket " + socket + ": " + why};
}

bool fill(sockaddr_un &address, const std::string &path) {
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.data(), path.size());
    return true;
}

Result<util::Fd> listen_on(const std::string &path) {
    sockaddr_un address{};
    if (!fill(address, path)) return failed(path, "longer than 107 bytes");
    const auto *generic = reinterpret_cast<const sockaddr *>(&address);
    if (Server::answers(path))
        return Error{Errc::refused, "socket " + path + ": another spiderflowd answers there"};
    struct stat about {};
    if (::lstat(path.c_str(), &about) == 0) {
        if (!S_ISSOCK(about.st_mode)) return failed(path, "exists and is not a socket");
        ::unlink(path.c_str());
    }
    util::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || ::bind(fd.get(), generic, sizeof address) != 0) return failed(path, std::strerror(errno));
    // Everyone on this host may ask; peer credentials decide what each one gets.
    if (::chmod(path.c_str(), 0666) != 0 || ::listen(fd.get(), 128) != 0)
        return failed(path, std::strerror(errno));
    return fd;
}

} // namespace

Result<std::unique_ptr<Server>> Server::open(const std::string &socket, Handler handler) {
    auto fd = listen_on(socket);
    if (!fd) return std::move(fd).error();
    std::unique_ptr<Server> server(new Server(socket, std::move(handler)));
    server->daemon_ = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC | MHD_USE_POLL, 0,
        nullptr, nullptr, &handle_some, server.get(), MHD_OPTION_LISTEN_SOCKET, fd->get(),
        MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
        MHD_OPTION_NOTIFY_COMPLETED, &forget, nullptr, MHD_OPTION_END);
    if (server->daemon_ == nullptr) return failed(socket, "cannot start the HTTP server");
    fd->release(); // libmicrohttpd closes it
    return server;
}

bool Server::answers(const std::string &socket) {
    sockaddr_un address{};
    const util::Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fill(address, socket) &&
           ::connect(probe.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
}

Server::~Server() {
    if (daemon_ == nullptr) return;
    MHD_stop_daemon(daemon_);
    ::unlink(socket_.c_str());
}

} // namespace spider::broker
