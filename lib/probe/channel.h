// SPDX-License-Identifier: GPL-3.0-or-later
// One authenticated connection: frames of [length, 4 bytes, big endian][JSON object][HMAC-SHA256, 32 bytes].
// The first frame of each side is its hello with a fresh random number, under the shared key; from both comes
// the key of the session. Each MAC covers direction, place in the row and length, so a frame that was
// altered, repeated, reflected or moved is refused, and nothing is parsed that does not come from a holder of
// the key. One thread at a time.
#pragma once

#include "model/json.h"
#include "probe/deadline.h"
#include "probe/key.h"
#include "util/fd.h"

#include <cstdint>
#include <string>

namespace spider::probe {

using model::Json;

// Until a peer has proved that it knows the key, both its frames together are at most 4 KiB, in 3 s.
constexpr std::size_t most_before_proof = 4096;
constexpr Seconds proof_within = 3;

class Channel {
  public:
    // Who connects: says that it is site `from`; Errc::denied when the other side is not the agent of `to`
    // (empty = any). Adds no time limit of its own.
    static Result<Channel> greet(util::Fd fd, const Key &key, const std::string &from, const std::string &to,
                                 const Deadline &deadline);
    // The agent of `site`.
    static Result<Channel> welcome(util::Fd fd, const Key &key, const std::string &site,
                                   const Deadline &deadline);

    Result<void> send(const Json &object, const Deadline &deadline);
    Result<Json> receive(const Deadline &deadline);
    // send() and receive(); an answer that is a refusal (probe/messages.h) becomes the error that it was.
    Result<Json> ask(const Json &object, const Deadline &deadline);

    // The connection itself, for a stream; nothing more is sent or received here.
    [[nodiscard]] util::Fd release() && { return std::move(fd_); }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string &peer() const { return peer_; } // the name that it gave; may be empty

  private:
    Channel(util::Fd fd, bool agent, const Digest &key) : fd_(std::move(fd)), agent_(agent), key_(key) {}
    void begin_session(const Key &key, const Json &of_client, const Json &of_agent);
    [[nodiscard]] Digest mac(bool from_agent, std::uint64_t place, std::string_view text) const;

    util::Fd fd_;
    bool agent_;
    Digest key_;
    std::uint64_t sent_ = 0, received_ = 0;
    std::string peer_;
};

} // namespace spider::probe
