// SPDX-License-Identifier: GPL-3.0-or-later
// The options of sbatch(1) that SpiderFlow understands: one table for the command line, for #SBATCH lines and
// for SBATCH_* variables. Pure.
#pragma once

#include "wire/messages.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spider::cli {

enum class Value { none, needed, optional };
enum class Use {
    carried, // the broker is told
    refused, // means something that a federated job cannot do yet
    passed,  // sbatch's own affair
    ours,    // of `spiderflow submit`, not of sbatch
};

struct SbatchOption {
    std::string_view name;
    char letter = 0;
    Value value = Value::needed;
    Use use = Use::carried;
    std::string_view variable = {}; // sbatch's input environment variable
    std::string_view cure = {};     // of refused ones: what to do instead
    std::string_view only = {};     // the one value that is not refused
    std::string_view opposite = {}; // of the two the last one counts
};

std::span<const SbatchOption> sbatch_options();
const SbatchOption *sbatch_option(std::string_view name); // null: not in the table

struct Arguments {
    wire::Names options;             // by long name; valueless ones have ""
    std::vector<std::string> passed; // the words of sbatch's options, as given
    std::vector<std::string> rest;   // script and its arguments
};

// Words as getopt_long() reads them: "-N2", "-N 2", "--nodes=2", "--nodes 2", "--" ends. Stops at the first
// word that is no option. Errc::invalid: unknown, ambiguous, or a value is missing.
Result<Arguments> read_arguments(const std::vector<std::string> &words);

// "#SBATCH" lines before the first command. What is not in the table is left to sbatch, as is a malformed
// line.
wire::Names script_options(std::string_view script);

// SBATCH_* and SLURM_CLUSTERS; `environment` is "NAME=VALUE" each.
wire::Names environment_options(std::span<const std::string> environment);

// Adds what `less`, which counts less, says and `options` leaves open.
void add_missing(wire::Names &options, const wire::Names &less);

// An Error for the first option of `options` that a federated job cannot have.
std::optional<Error> refusal(const wire::Names &options);
wire::Names carried(const wire::Names &options);
std::string option_word(const std::string &name, const std::string &value); // "--nodes=2", "--hold"

} // namespace spider::cli
