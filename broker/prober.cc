// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/prober.h"

#include <atomic>
#include <optional>
#include <sys/eventfd.h>
#include <unistd.h>

namespace spider::broker {

struct Prober::Running {
    LinkTest test;
    std::optional<Result<probe::Measurement>> found; // written before `ended`
    std::atomic<bool> ended = false;
    std::thread thread;
};

Prober::Prober(Ask ask) : ask_(std::move(ask)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Prober::Prober(Prober &&) noexcept = default;
Prober &Prober::operator=(Prober &&) noexcept = default;

Prober::~Prober() {
    if (running_.empty()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    for (const auto &each : running_)
        each->thread.join();
}

void Prober::start(LinkTest test) {
    auto &running = *running_.emplace_back(std::make_unique<Running>());
    running.test = std::move(test);
    running.thread = std::thread([&running, ask = ask_, stop = stop_.get()] {
        running.found = ask(running.test, stop);
        running.ended = true;
    });
}

std::vector<Tested> Prober::take() {
    std::vector<Tested> tested;
    std::erase_if(running_, [&](const auto &each) {
        if (!each->ended) return false;
        each->thread.join();
        tested.push_back({std::move(each->test), std::move(*each->found)});
        return true;
    });
    return tested;
}

} // namespace spider::broker
