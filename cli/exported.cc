// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/exported.h"

#include <algorithm>
#include <array>
#include <strings.h>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr std::array<std::string_view, 17> local_names{
    "PATH",       "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "USER", "LOGNAME",  "SHELL",
    "PWD",        "OLDPWD",          "TMPDIR",     "TMP",  "TEMP", "HOSTNAME", "DISPLAY",
    "XAUTHORITY", "KRB5CCNAME",      "_"};

constexpr std::array<std::string_view, 11> local_beginnings{"XDG_",    "SSH_",    "DBUS_",     "SLURM_",
                                                            "SLURMD_", "SBATCH_", "SALLOC_",   "SRUN_",
                                                            "SPANK_",  "_SLURM_", "BASH_FUNC_"};

bool same(const std::string &a, const char *b) { return ::strcasecmp(a.c_str(), b) == 0; }

// sbatch's own rule: commas inside quotes do not separate, quotes around a whole entry go.
std::vector<std::string> entries_of(std::string_view list) {
    std::vector<std::string> entries(1);
    char quote = 0;
    for (const char c : list) {
        if (c == ',' && quote == 0) {
            entries.emplace_back();
            continue;
        }
        if (quote != 0 && c == quote)
            quote = 0;
        else if (quote == 0 && (c == '\'' || c == '"'))
            quote = c;
        entries.back() += c;
    }
    for (auto &entry : entries)
        if (entry.size() >= 2 && entry.front() == entry.back() &&
            (entry.front() == '\'' || entry.front() == '"'))
            entry = entry.substr(1, entry.size() - 2);
    return entries;
}

struct Entry {
    std::string name;
    std::string value;
};

std::optional<Entry> entry_of(const std::string &text) {
    const auto equal = text.find('=');
    if (equal == std::string::npos || equal == 0) return std::nullopt;
    return Entry{text.substr(0, equal), text.substr(equal + 1)};
}

void add(wire::Names &names, const Entry &entry) {
    if (!stays_here(entry.name) && is_utf8(entry.name) && is_utf8(entry.value))
        names[entry.name] = entry.value;
}

} // namespace

bool stays_here(std::string_view name) {
    return std::find(local_names.begin(), local_names.end(), name) != local_names.end() ||
           std::any_of(local_beginnings.begin(), local_beginnings.end(),
                       [&](std::string_view beginning) { return name.starts_with(beginning); });
}

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t more = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + more >= text.size()) return false;
        for (std::size_t k = 1; k <= more; ++k)
            if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
        const auto second = more > 0 ? static_cast<unsigned char>(text[i + 1]) : 0;
        if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
            (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
            return false; // overlong, surrogate, beyond U+10FFFF
        i += more + 1;
    }
    return true;
}

wire::Names exported(std::span<const std::string> environment,
                     const std::optional<std::string> &export_value) {
    wire::Names names;
    const auto add_all = [&] {
        for (const auto &text : environment)
            if (const auto entry = entry_of(text)) add(names, *entry);
    };
    if (!export_value || export_value->empty()) {
        add_all();
        return names;
    }
    if (same(*export_value, "NONE") || same(*export_value, "NIL")) return names;
    const auto entries = entries_of(*export_value);
    if (std::any_of(entries.begin(), entries.end(), [](const auto &entry) { return same(entry, "ALL"); }))
        add_all();
    for (const auto &wanted : entries) {
        if (const auto entry = entry_of(wanted)) {
            add(names, *entry);
            continue;
        }
        for (const auto &text : environment)
            if (const auto entry = entry_of(text); entry && entry->name == wanted) add(names, *entry);
    }
    return names;
}

wire::Names spank_options(std::span<const std::string> environment) {
    constexpr std::string_view beginning = "_SLURM_SPANK_OPTION_"; // spank(8)
    wire::Names options;
    for (const auto &text : environment)
        if (const auto entry = entry_of(text);
            entry && entry->name.starts_with(beginning) && is_utf8(entry->name) && is_utf8(entry->value))
            options[entry->name.substr(beginning.size())] = entry->value;
    return options;
}

std::vector<std::string> own_environment() {
    std::vector<std::string> environment;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        environment.emplace_back(*entry);
    return environment;
}

} // namespace spider::cli
