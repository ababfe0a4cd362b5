// SPDX-License-Identifier: GPL-3.0-or-later
// The command that this process is: its words, and where sbatch found the script among them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace spider::spank {

struct CommandLine {
    std::vector<std::string> words;
    std::size_t script = 0; // index of the script; words.size() when there is none (standard input, --wrap)

    // sbatch stops its options at ":", which begins the next component of a heterogeneous job.
    [[nodiscard]] bool heterogeneous() const { return script < words.size() && words[script] == ":"; }
    [[nodiscard]] std::vector<std::string> script_arguments() const;
};

// Of this process. getopt's own `optind` tells the script's place: to be called once sbatch has read its
// options.
CommandLine own_command_line();

// sbatch and salloc share one SPANK context.
bool is_salloc();

} // namespace spider::spank
