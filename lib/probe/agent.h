// SPDX-License-Identifier: GPL-3.0-or-later
// The agent of a site: lets others measure towards it, and measures when it is asked. One thread accepts, one
// more serves each connection; all end when `stop` can be read.
#pragma once

#include "probe/agent_config.h"

#include <memory>

namespace spider::probe {

class Agent {
  public:
    static Result<Agent> open(AgentConfig config); // listens from now on
    Agent(Agent &&) noexcept;
    Agent &operator=(Agent &&) noexcept;
    ~Agent();

    void run(int stop);              // until that descriptor can be read, and all connections are closed
    void reload(AgentConfig config); // from any thread; `listen` stays as it was
    [[nodiscard]] int port() const;
    [[nodiscard]] int measured() const;       // how many tests others have made towards it, to their good end
    [[nodiscard]] std::string status() const; // one line for people

  private:
    struct State;
    explicit Agent(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace spider::probe
