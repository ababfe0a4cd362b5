// SPDX-License-Identifier: GPL-3.0-or-later
// What plugstack.conf and the user's option say. Plain values, read anew in each process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spider::spank {

// Arguments on the plugin's line in plugstack.conf.
struct Settings {
    std::string helper = SF_BINDIR "/spiderflow";
    std::string socket; // the broker's; empty: the helper's own default
    std::string bindir; // where squeue is; empty: beside this Slurm's daemons
};

// What is wrong, one complaint per argument; the rest is still taken.
std::vector<std::string> read_settings(int count, char **arguments, Settings &settings);

// The option --spiderflow[=SPEC].
struct Asked {
    bool given = false;
    std::string spec;
    [[nodiscard]] bool off() const { return given && spec == "off"; }
    [[nodiscard]] bool on() const { return given && !off(); }
};

// A bare option arrives as NULL in sbatch, "" in its batch step and "(null)" in srun: all mean an empty SPEC.
std::string spec_of(const char *argument);

// How the option travels from a job to its steps.
inline constexpr const char *option_variable = "SLURM_SPANK__SLURM_SPANK_OPTION_spiderflow_spiderflow";

} // namespace spider::spank
