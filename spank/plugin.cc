// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin as Slurm sees it: its symbols, and which side acts in which process.
#include "spank/guard.h"
#include "spank/settings.h"
#include "spank/step.h"
#include "spank/submit.h"
#include "spank/task.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace spider::spank {
namespace {

struct State {
    Settings settings;
    Asked asked;
    Submission submission;
    int loads = 0;         // how often plugstack.conf lists the plugin: Slurm calls each hook as often
    int options_calls = 0; // of init_post_opt
    bool in_task = false;  // task_init has run in this process
};

// Never destroyed: in sbatch the exit hook runs from atexit(), after static objects are gone.
State &state() {
    static State &kept = *new State;
    return kept;
}

// Records only, and the last call wins: srun's slurmstepd calls twice on 22.05. SPEC is judged by the helper,
// before anything is submitted and in one line; a refusal from here would be two.
int take_option(int, const char *argument, int) {
    return guarded("option", [&] {
        state().asked.given = true;
        state().asked.spec = spec_of(argument);
    });
}

void register_option(spank_t spank) {
    static char name[] = "spiderflow";
    static char argument[] = "SPEC";
    static char usage[] = "train over several clusters; SPEC is key=value,… or a .toml or .json file, see "
                          "spiderflow(7)";
    static spank_option option{name, argument, usage, 2, 0, take_option};
    // It fails when the option is there already (the plugin is listed twice): nothing is lost, nothing is
    // said.
    ::spank_option_register(spank, &option);
}

void load(spank_t spank, int count, char **arguments) {
    auto &own = state();
    if (own.loads++ > 0) return;
    const auto complaints = read_settings(count, arguments, own.settings);
    for (const auto &complaint : complaints)
        slurm_error("spiderflow: %s", complaint.c_str());
    register_option(spank);
    if (::spank_context() == S_CTX_ALLOCATOR) shed_inherited(own.submission);
}

// SLURM_SPIDERFLOW holds the user's default SPEC, which a bare --spiderflow takes.
bool off_by_default() {
    const char *defaults = std::getenv("SLURM_SPIDERFLOW");
    return defaults != nullptr && std::string_view(defaults) == "off";
}

void options_read() {
    auto &own = state();
    if (own.asked.spec.empty() && off_by_default()) own.asked.spec = "off";
    const auto context = ::spank_context();
    const int component = own.options_calls / std::max(own.loads, 1);
    if (own.options_calls++ % std::max(own.loads, 1) != 0) return;
    own.submission.heterogeneous = component > 0; // sbatch calls once for each component
    if (context == S_CTX_ALLOCATOR) before_submission(own.settings, own.asked, own.submission);
    if (context == S_CTX_LOCAL) before_step(own.asked);
}

} // namespace
} // namespace spider::spank

// Written by hand: SPANK_PLUGIN() makes constants that C++ keeps inside the file.
extern "C" {
#pragma GCC visibility push(default)
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
#pragma GCC visibility pop
const char plugin_name[] = "spiderflow";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

using namespace spider::spank;

int slurm_spank_init(spank_t spank, int count, char **arguments) {
    return guarded("init", [&] { load(spank, count, arguments); });
}

// Without a plan sbatch must not go on: the job would run as an ordinary one.
int slurm_spank_init_post_opt(spank_t, int, char **) {
    return guarded("init_post_opt", options_read, []() noexcept {
        const auto context = ::spank_context();
        if (state().asked.on() && (context == S_CTX_ALLOCATOR || context == S_CTX_LOCAL)) std::exit(1);
    });
}

int slurm_spank_task_init(spank_t spank, int, char **) {
    return guarded(
        "task_init",
        [&] {
            if (!std::exchange(state().in_task, true)) before_task(spank, state().settings, state().asked);
        },
        [spank]() noexcept { stop_task(spank); });
}

int slurm_spank_exit(spank_t, int, char **) {
    return guarded("exit", [] { after_submission(state().settings, state().submission); });
}
}
