// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/commandline.h"

#include "util/fd.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <getopt.h>
#include <string_view>
#include <unistd.h>

namespace spider::spank {

std::vector<std::string> CommandLine::script_arguments() const {
    if (script >= words.size()) return {};
    return {words.begin() + static_cast<std::ptrdiff_t>(script) + 1, words.end()};
}

CommandLine own_command_line() {
    CommandLine line;
    auto text = util::read_file("/proc/self/cmdline");
    if (!text) return line;
    if (!text->empty() && text->back() == '\0') text->pop_back();
    line.words = util::split(*text, '\0');
    line.script = std::min(static_cast<std::size_t>(std::max(optind, 1)), line.words.size());
    return line;
}

bool is_salloc() {
    if (::dlsym(RTLD_DEFAULT, "saopt") != nullptr) return true; // salloc's part of the option object
    std::array<char, 4096> path{};
    const auto length = ::readlink("/proc/self/exe", path.data(), path.size());
    const std::string_view exe(path.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    return exe.substr(exe.rfind('/') + 1).starts_with("salloc");
}

} // namespace spider::spank
