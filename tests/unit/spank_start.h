// SPDX-License-Identifier: GPL-3.0-or-later
// Slurm's first calls of the plugin, over the fake.
#pragma once

#include "fake_spank.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spider::spank {

// Slurm's calls up to the options: init, the option's callback, init_post_opt. `times`: lines in
// plugstack.conf.
inline void start(spank_handle &spank, std::vector<std::string> arguments, const char *spec = nullptr,
                  int times = 1) {
    std::vector<char *> words;
    for (auto &word : arguments)
        words.push_back(word.data());
    const auto count = static_cast<int>(words.size());
    for (int i = 0; i < times; ++i)
        EXPECT_EQ(slurm_spank_init(&spank, count, words.data()), 0);
    if (spec != nullptr) {
        EXPECT_EQ(fake().registered.at(0).cb(0, spec, 0), 0);
    }
    for (int i = 0; i < times; ++i)
        EXPECT_EQ(slurm_spank_init_post_opt(&spank, count, words.data()), 0);
}

} // namespace spider::spank
