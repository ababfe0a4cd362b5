// SPDX-License-Identifier: GPL-3.0-or-later
// The wall between Slurm's C and our C++: the only way to slurm/spank.h, and the wrapper of every hook.
// No exception passes it. Runs in whatever process loaded the plugin, on its only thread.
#pragma once

#include <cstdint>
#include <exception>

// spank.h declares the hooks outside its own extern "C", and they alone are visible outside the plugin.
#pragma GCC visibility push(default)
extern "C" {
#include <slurm/slurm_version.h>
#include <slurm/spank.h>
}
#pragma GCC visibility pop

namespace spider::spank {

// Runs `act`; an exception is logged, then `otherwise` runs. A hook's own status would drain nodes in
// slurmstepd and is ignored in sbatch (plugin `optional`), so it is 0 always: a hook that must fail ends the
// process itself.
template <class Act, class Otherwise>
int guarded(const char *hook, Act act, Otherwise otherwise) noexcept {
    static_assert(noexcept(otherwise()));
    try {
        act();
        return 0;
    } catch (const std::exception &error) {
        slurm_error("spiderflow: %s: %s", hook, error.what());
    } catch (...) {
        slurm_error("spiderflow: %s: unknown exception", hook);
    }
    otherwise();
    return 0;
}

template <class Act>
int guarded(const char *hook, Act act) noexcept {
    return guarded(hook, act, []() noexcept {});
}

} // namespace spider::spank
