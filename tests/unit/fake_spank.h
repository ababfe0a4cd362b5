// SPDX-License-Identifier: GPL-3.0-or-later
// A Slurm of paper around the plugin: the symbols that sbatch, srun and slurmstepd would give it, and what
// was done with them. Each case that calls hooks runs in a child of its own, as the plugin's state lives as
// long as its process.
#pragma once

#include "spank/guard.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

// What the opaque spank_t points to.
struct spank_handle {
    std::map<std::string, std::string> environment; // of the task
    std::map<int, std::uint32_t> items;
};

struct FakeSlurm {
    spank_context_t context = S_CTX_REMOTE;
    bool is_salloc = false;
    bool has_option_table = true;
    std::map<std::string, std::string> options; // set by the user before, by the plugin after
    std::vector<std::string> refused;           // names that slurm_option_set() refuses
    std::vector<spank_option> registered;
};
FakeSlurm &fake();

struct Outcome {
    int status = 0;
    std::string out;
    std::string err;
};
// Runs `act` in a forked child; its standard output and error are what it and the plugin wrote.
Outcome in_child(const std::function<void()> &act);

// A folder of its own for one test; goes with it.
class Scratch {
  public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    [[nodiscard]] std::string path(const std::string &name) const { return folder_ + "/" + name; }
    std::string script(const std::string &name, const std::string &body) const; // executable, for /bin/sh
    [[nodiscard]] std::string text(const std::string &name) const;              // "" when there is none

  private:
    std::string folder_;
};
