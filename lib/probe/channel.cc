// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/channel.h"

#include "probe/messages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace spider::probe {
namespace {

constexpr std::size_t most_payload = 16384;
constexpr std::size_t head = 4; // bytes of the length
constexpr int version = 1;
constexpr std::size_t nonce_bytes = 32;

std::string_view view(const Digest &digest) { return {digest.data(), digest.size()}; }

std::string number_bytes(std::uint64_t value, int bytes) {
    std::string text;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        text += static_cast<char>((value >> shift) & 0xFF);
    return text;
}

Error broken(const std::string &step) {
    if (errno == ECONNRESET || errno == EPIPE)
        return {Errc::unreachable, step + ": the other side ended the connection"};
    return {Errc::system, step + ": " + std::strerror(errno)};
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

Result<void> put(int fd, std::string_view bytes, const Deadline &deadline) {
    while (!bytes.empty()) {
        const auto put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && !try_again()) return broken("send");
        if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
        if (bytes.empty()) break;
        if (auto ready = deadline.wait(fd, POLLOUT); !ready) return ready;
    }
    return {};
}

Result<std::string> take(int fd, std::size_t count, const Deadline &deadline) {
    std::string bytes(count, '\0');
    for (std::size_t have = 0; have < count;) {
        if (auto ready = deadline.wait(fd, POLLIN); !ready) return std::move(ready).error();
        const auto got = ::recv(fd, bytes.data() + have, count - have, MSG_DONTWAIT);
        if (got < 0 && !try_again()) return broken("receive");
        if (got == 0) return Error{Errc::unreachable, "the other side ended the connection"};
        if (got > 0) have += static_cast<std::size_t>(got);
    }
    return bytes;
}

Json hello(const std::string &site) {
    return {{"spiderflow-probe", version}, {"site", site}, {"nonce", random_hex(nonce_bytes)}};
}

Result<void> good_hello(const Json &json) {
    if (model::number_at(json, "spiderflow-probe").value_or(0) != version)
        return Error{Errc::protocol,
                     "it speaks another version of the protocol, not " + std::to_string(version)};
    if (model::text_at(json, "nonce").size() != 2 * nonce_bytes || model::text_at(json, "site").size() > 64)
        return Error{Errc::protocol, "its hello is incomplete"};
    return {};
}

} // namespace

// The hello key differs from the shared key so that no text means two things under one key.
Result<Channel> Channel::greet(util::Fd fd, const Key &key, const std::string &from, const std::string &to,
                               const Deadline &deadline) {
    Channel channel(std::move(fd), false, hmac(key.bytes(), "spiderflow-probe hello"));
    const auto own = hello(from);
    if (auto sent = channel.send(own, deadline); !sent) return std::move(sent).error();
    auto answer = channel.receive(deadline);
    if (!answer && answer.error().code == Errc::unreachable)
        return Error{Errc::denied,
                     "it ended the connection: this host is not on the agent's list 'allow', the "
                     "keys differ, or it has too many connections; its log says which"};
    if (!answer) return std::move(answer).error();
    if (auto good = good_hello(*answer); !good) return std::move(good).error();
    channel.begin_session(key, own, *answer);
    channel.peer_ = model::text_at(*answer, "site");
    if (!to.empty() && channel.peer_ != to)
        return Error{Errc::denied, "it is the agent of site '" + channel.peer_ + "', not of '" + to + "'"};
    return channel;
}

Result<Channel> Channel::welcome(util::Fd fd, const Key &key, const std::string &site,
                                 const Deadline &deadline) {
    Channel channel(std::move(fd), true, hmac(key.bytes(), "spiderflow-probe hello"));
    auto first = channel.receive(deadline);
    if (!first) return std::move(first).error().within("hello");
    if (auto good = good_hello(*first); !good) return std::move(good).error().within("hello");
    const auto own = hello(site);
    if (auto sent = channel.send(own, deadline); !sent) return std::move(sent).error().within("hello");
    channel.begin_session(key, *first, own);
    channel.peer_ = model::text_at(*first, "site");
    return channel;
}

void Channel::begin_session(const Key &key, const Json &of_client, const Json &of_agent) {
    const auto text =
        "spiderflow-probe session\n" + model::print_json(of_client) + "\n" + model::print_json(of_agent);
    key_ = hmac(key.bytes(), text);
}

Digest Channel::mac(bool from_agent, std::uint64_t place, std::string_view text) const {
    std::string covered(1, from_agent ? 'A' : 'C');
    covered += number_bytes(place, 8);
    covered += number_bytes(text.size(), head);
    covered += text;
    return hmac(view(key_), covered);
}

Result<void> Channel::send(const Json &object, const Deadline &deadline) {
    const auto text = model::print_json(object);
    const auto tag = mac(agent_, sent_++, text);
    auto frame = number_bytes(text.size(), head);
    frame += text;
    frame += view(tag);
    return put(fd_.get(), frame, deadline);
}

// A client's hello could be an old one that was recorded; its first frame after that proves that it is not.
Result<Json> Channel::receive(const Deadline &deadline) {
    const auto most = agent_ && received_ < 2 ? most_before_proof / 2 - head - sizeof(Digest) : most_payload;
    const auto length = take(fd_.get(), head, deadline);
    if (!length) return length.error();
    std::size_t size = 0;
    for (const unsigned char byte : *length)
        size = size << 8 | byte;
    if (size > most)
        return Error{Errc::protocol, "a frame of " + std::to_string(size) + " bytes; at most " +
                                         std::to_string(most) + " are taken"};
    auto frame = take(fd_.get(), size + sizeof(Digest), deadline);
    if (!frame) return std::move(frame).error();
    Digest tag{};
    std::copy_n(frame->end() - sizeof(Digest), sizeof(Digest), tag.begin());
    frame->resize(size);
    if (!same(tag, mac(!agent_, received_, *frame)))
        return Error{Errc::denied, received_ == 0 ? "the keys differ" : "a frame that is not authentic"};
    ++received_;
    auto json = model::parse_json(*frame, 8);
    if (!json || !json->is_object()) return Error{Errc::protocol, "a frame that is no JSON object"};
    return json;
}

Result<Json> Channel::ask(const Json &object, const Deadline &deadline) {
    if (auto sent = send(object, deadline); !sent) return std::move(sent).error();
    auto answer = receive(deadline);
    if (!answer) return answer;
    if (auto refused = refusal_in(*answer)) return std::move(*refused);
    return answer;
}

} // namespace spider::probe
