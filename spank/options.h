// SPDX-License-Identifier: GPL-3.0-or-later
// Slurm's own option table inside sbatch and srun, by name and text, as cli_filter/lua uses it.
// Found by dlsym in the host process: the plugin links no libslurm, and the option object stays opaque.
#pragma once

#include <optional>
#include <string>

namespace spider::spank {

class OptionTable {
  public:
    // Nothing when this Slurm does not export what is needed.
    static std::optional<OptionTable> find();

    // The value as Slurm prints it; nothing when neither command line, script nor environment set it.
    [[nodiscard]] std::optional<std::string> value(const char *name) const;
    [[nodiscard]] bool is_set(const char *name) const { return isset_(options_, name); }
    // An empty value is an option without one (hold). False: Slurm does not know the option or refuses the
    // value.
    bool set(const std::string &name, const std::string &value) const;

  private:
    using Set = int (*)(void *, const char *, const char *, bool);
    using Get = char *(*)(void *, const char *);
    using IsSet = bool (*)(void *, const char *);
    OptionTable(void *options, Set setter, Get getter, IsSet asker)
        : options_(options), set_(setter), get_(getter), isset_(asker) {}

    void *options_;
    Set set_;
    Get get_;
    IsSet isset_;
};

} // namespace spider::spank
