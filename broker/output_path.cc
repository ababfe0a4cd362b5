// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/output_path.h"

#include "util/hostlist.h"

#include <algorithm>
#include <cctype>

namespace spider::broker {
namespace {

constexpr std::size_t widest = 10; // sbatch(1): "%5j" pads with zeros, up to here

std::string first_node(const std::string &hosts) {
    const auto nodes = util::expand_hostlist(hosts);
    return nodes && !nodes->empty() ? nodes->front() : std::string();
}

struct Filling {
    std::string text; // empty: not known
    bool number = false;
};

// As slurmstepd fills them in for a batch script.
Filling filling(char letter, const coalloc::Job &job, const coalloc::PartRecord &part) {
    switch (letter) {
    case 'j':
    case 'J':
    case 'A':
        return {part.job > 0 ? std::to_string(part.job) : "", true};
    case 'a':
        return {"4294967294", true}; // no array
    case 'n':
    case 't':
        return {"0", true};
    case 's':
        return {"batch"};
    case 'x':
        return {job.name};
    case 'u':
        return {part.user};
    case 'N':
        return {first_node(part.hosts)};
    case '%':
        return {"%"};
    default:
        return {};
    }
}

std::string filled(const std::string &pattern, const coalloc::Job &job, const coalloc::PartRecord &part) {
    std::string path;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        auto letter = at + 1;
        while (pattern[at] == '%' && letter < pattern.size() &&
               std::isdigit(static_cast<unsigned char>(pattern[letter])) != 0)
            ++letter;
        const auto value =
            pattern[at] == '%' && letter < pattern.size() ? filling(pattern[letter], job, part) : Filling{};
        if (value.text.empty()) {
            path += pattern[at];
            continue;
        }
        std::size_t width = 0;
        for (auto digit = at + 1; digit < letter; ++digit)
            width = std::min(widest, width * 10 + static_cast<std::size_t>(pattern[digit] - '0'));
        if (value.number && value.text.size() < width) path.append(width - value.text.size(), '0');
        path += value.text;
        at = letter;
    }
    return path;
}

} // namespace

std::string output_path(const std::string &pattern, const coalloc::Job &job,
                        const coalloc::PartRecord &part) {
    if (pattern.empty()) return {};
    auto path = pattern;
    if (path.find('\\') != std::string::npos) // sbatch(1): then nothing is replaced
        std::erase(path, '\\');
    else
        path = filled(pattern, job, part);
    if (path.front() == '/' || part.directory.empty()) return path;
    return part.directory + (part.directory.back() == '/' ? "" : "/") + path;
}

} // namespace spider::broker
