// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/options.h"

#include <dlfcn.h>

namespace spider::spank {
namespace {

template <class Function>
Function symbol(const char *name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

} // namespace

std::optional<OptionTable> OptionTable::find() {
    void *options = ::dlsym(RTLD_DEFAULT, "opt");
    const auto set = symbol<Set>("slurm_option_set");
    const auto get = symbol<Get>("slurm_option_get");
    const auto isset = symbol<IsSet>("slurm_option_isset");
    if (options == nullptr || set == nullptr || get == nullptr || isset == nullptr) return std::nullopt;
    return OptionTable(options, set, get, isset);
}

std::optional<std::string> OptionTable::value(const char *name) const {
    if (!isset_(options_, name)) return std::nullopt; // 22.05 answers garbage for an option that is not set
    // From Slurm's xmalloc(), which keeps a header before it: free() would crash. It is left to the command,
    // which ends in a moment.
    const char *text = get_(options_, name);
    return std::string(text == nullptr ? "" : text);
}

bool OptionTable::set(const std::string &name, const std::string &value) const {
    return set_(options_, name.c_str(), value.empty() ? nullptr : value.c_str(), false) == 0;
}

} // namespace spider::spank
