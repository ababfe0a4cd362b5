// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/script.h"

#include "cli/common.h"
#include "util/text.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr std::size_t longest_script = 4u << 20; // max_script_size of slurm.conf(5) by default

// sbatch(1): relative to the working directory, else a file of PATH.
std::string path_of(const std::string &name) {
    if (name.find('/') != std::string::npos || ::access(name.c_str(), R_OK) == 0) return name;
    for (const auto &directory : util::split(environment_value("PATH"), ':')) {
        const auto path = directory + "/" + name;
        if (::access(path.c_str(), R_OK) == 0) return path;
    }
    return name;
}

Error no_copy() {
    return {Errc::system, std::string("standard input: cannot be kept: ") + std::strerror(errno)};
}

Result<util::Fd> copy_of(const std::string &text) {
    util::Fd copy(::memfd_create("script", MFD_CLOEXEC));
    if (!copy) return no_copy();
    for (std::size_t at = 0; at < text.size();) {
        const auto written = ::write(copy.get(), text.data() + at, text.size() - at);
        if (written < 0) return no_copy();
        at += static_cast<std::size_t>(written);
    }
    if (::lseek(copy.get(), 0, SEEK_SET) != 0) return no_copy();
    return copy;
}

} // namespace

Result<Script> read_script(const std::string &name) {
    Script script;
    auto text = name.empty() ? read_all(STDIN_FILENO, longest_script)
                             : util::read_file(path_of(name), longest_script);
    if (!text) return std::move(text).error();
    script.text = std::move(*text);
    if (!name.empty()) return script;
    auto copy = copy_of(script.text);
    if (!copy) return std::move(copy).error();
    script.standard_input = std::move(*copy);
    return script;
}

} // namespace spider::cli
