// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/travelling.h"

#include "cli/common.h"
#include "util/process.h"
#include "util/text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace spider::cli {
namespace {

namespace fs = std::filesystem;

constexpr Seconds tool_deadline = 20; // the plugin gives its helper 60 s
constexpr std::size_t most_entries = 10'000;
constexpr std::uintmax_t most_bytes = 256u << 20; // before they are packed
constexpr std::size_t most_packed = 11u << 20;    // in base64 below what the broker takes

constexpr std::string_view cure = "; use a file system that both sites see, or a container image";

Error trouble(const std::string &path, const std::string &why) {
    return {Errc::invalid, "stage=" + printable(path) + ": " + why};
}

Error too_much(const std::string &what) { return {Errc::invalid, "stage: " + what + std::string(cure)}; }

struct Sum {
    std::size_t entries = 0;
    std::uintmax_t bytes = 0;
};

// `path` for the message; links count as what they point at.
Result<void> add(const fs::path &place, const std::string &path, Sum &sum) {
    std::error_code error;
    const auto status = fs::status(place, error);
    if (status.type() == fs::file_type::not_found) return trouble(path, "no such file");
    if (error) return trouble(path, error.message());
    const bool folder = fs::is_directory(status);
    if (!folder && !fs::is_regular_file(status))
        return trouble(path, "neither a file nor a directory: sockets, devices and pipes cannot travel");
    if (::access(place.c_str(), folder ? R_OK | X_OK : R_OK) != 0) return trouble(path, std::strerror(errno));
    if (!folder) sum.bytes += fs::file_size(place, error);
    if (++sum.entries > most_entries)
        return too_much("more than " + std::to_string(most_entries) + " files and directories");
    if (sum.bytes > most_bytes)
        return too_much("more than " + util::number(most_bytes / 1e6, 3) + " MB of files");
    return {};
}

Result<void> add_all(const fs::path &place, const std::string &path, Sum &sum) {
    if (auto added = add(place, path, sum); !added) return added;
    std::error_code error;
    if (!fs::is_directory(place, error)) return {};
    for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error))
        if (auto added = add_all(at->path(), path + "/" + at->path().filename().string(), sum); !added)
            return added;
    if (error) return trouble(path, error.message());
    return {};
}

Result<std::string> tool(std::vector<std::string> argv, std::string input = {}) {
    const auto name = "stage: " + argv.front();
    util::Command command;
    command.argv = std::move(argv);
    command.input = std::move(input);
    command.deadline = tool_deadline;
    command.search_path = true;
    auto ended = util::run(command);
    if (!ended) return std::move(ended).error().within("stage");
    if (ended->status != 0)
        return Error{Errc::system, name + ": exit status " + std::to_string(ended->status) + ": " +
                                       printable(util::trim(ended->err))};
    return std::move(ended->out);
}

} // namespace

Result<void> look(const Travelling &travelling) {
    Sum sum;
    for (const auto &path : travelling.paths)
        if (auto added = add_all(fs::path(travelling.directory) / path, path, sum); !added) return added;
    return {};
}

Result<wire::Archive> pack(const Travelling &travelling) {
    wire::Archive packed;
    if (travelling.paths.empty()) return packed;
    if (auto good = look(travelling); !good) return std::move(good).error();
    // Nothing of owners, times and the order in a directory is in it.
    std::vector<std::string> argv{"tar",
                                  "--create",
                                  "--dereference",
                                  "--format=gnu",
                                  "--hard-dereference",
                                  "--mtime=@0",
                                  "--sort=name",
                                  "--owner=0",
                                  "--group=0",
                                  "--numeric-owner",
                                  "--mode=u+rwX",
                                  "--use-compress-program=gzip -n",
                                  "--directory=" + travelling.directory,
                                  "--"};
    for (const auto &path : travelling.paths)
        argv.push_back("./" + path);
    const auto archive = tool(std::move(argv));
    if (!archive) return archive.error();
    if (archive->size() > most_packed)
        return too_much("more than " + util::number(most_packed / 1e6, 3) + " MB when packed");
    const auto sum = tool({"sha256sum"}, *archive);
    if (!sum) return sum.error();
    auto text = tool({"base64"}, *archive);
    if (!text) return text.error();
    packed.sha256 = sum->substr(0, sum->find(' '));
    packed.base64 = std::move(*text);
    return packed;
}

} // namespace spider::cli
