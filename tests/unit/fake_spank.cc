// SPDX-License-Identifier: GPL-3.0-or-later
#include "fake_spank.h"

#include "util/fd.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

FakeSlurm &fake() {
    static FakeSlurm slurm;
    return slurm;
}

namespace {

int option_object = 0;

// Slurm defines some of its codes as enumerators and some as numbers.
spank_err_t code(int value) { return static_cast<spank_err_t>(value); }

int set_option(void *object, const char *name, const char *value, bool) {
    auto &refused = fake().refused;
    if (object != &option_object || std::find(refused.begin(), refused.end(), name) != refused.end())
        return -1;
    fake().options[name] = value == nullptr ? "" : value;
    return 0;
}

char *get_option(void *, const char *name) {
    const auto found = fake().options.find(name);
    // As 22.05 does for an option that is not set: nobody may ask for it.
    return const_cast<char *>(found == fake().options.end() ? "2982616-04:14:00" : found->second.c_str());
}

bool isset_option(void *, const char *name) { return fake().options.contains(name); }

void print(const char *prefix, const char *format, va_list arguments) {
    std::array<char, 4096> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    ::dprintf(STDERR_FILENO, "%s%s\n", prefix, line.data());
}

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
        text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
}

} // namespace

extern "C" {

// Takes the place of the C library's for this program.
void *dlsym(void *, const char *name) noexcept {
    const std::string_view wanted = name;
    if (wanted == "saopt") return fake().is_salloc ? &option_object : nullptr;
    if (!fake().has_option_table) return nullptr;
    if (wanted == "opt") return &option_object;
    if (wanted == "slurm_option_set") return reinterpret_cast<void *>(set_option);
    if (wanted == "slurm_option_get") return reinterpret_cast<void *>(get_option);
    if (wanted == "slurm_option_isset") return reinterpret_cast<void *>(isset_option);
    return nullptr;
}

void slurm_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print("error: ", format, arguments);
    va_end(arguments);
}

void slurm_spank_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print("", format, arguments);
    va_end(arguments);
}

void slurm_verbose(const char *, ...) {}

spank_context_t spank_context(void) { return fake().context; }

spank_err_t spank_option_register(spank_t, spank_option *option) {
    fake().registered.push_back(*option);
    return code(ESPANK_SUCCESS);
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
    const auto found = spank->items.find(item);
    if (found == spank->items.end()) return code(ESPANK_BAD_ARG);
    va_list arguments;
    va_start(arguments, item);
    *va_arg(arguments, std::uint32_t *) = found->second;
    va_end(arguments);
    return code(ESPANK_SUCCESS);
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buffer, int length) {
    const auto found = spank->environment.find(name);
    if (found == spank->environment.end()) return code(ESPANK_ENV_NOEXIST);
    std::snprintf(buffer, static_cast<std::size_t>(length), "%s", found->second.c_str());
    return code(found->second.size() >= static_cast<std::size_t>(length) ? ESPANK_NOSPACE : ESPANK_SUCCESS);
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite) {
    if (overwrite == 0 && spank->environment.contains(name)) return code(ESPANK_ENV_EXISTS);
    spank->environment[name] = value;
    return code(ESPANK_SUCCESS);
}

spank_err_t spank_unsetenv(spank_t spank, const char *name) {
    spank->environment.erase(name);
    return code(ESPANK_SUCCESS);
}
}

Outcome in_child(const std::function<void()> &act) {
    int out[2], err[2];
    if (::pipe(out) != 0 || ::pipe(err) != 0) std::abort();
    std::fflush(nullptr);
    const auto child = ::fork();
    if (child == 0) {
        ::dup2(out[1], STDOUT_FILENO);
        ::dup2(err[1], STDERR_FILENO);
        for (const int fd : {out[0], out[1], err[0], err[1]})
            ::close(fd);
        act();
        std::fflush(nullptr);
        ::_exit(0);
    }
    ::close(out[1]);
    ::close(err[1]);
    Outcome outcome;
    outcome.out = read_all(out[0]);
    outcome.err = read_all(err[0]); // both are far below a pipe's capacity
    ::close(out[0]);
    ::close(err[0]);
    ::waitpid(child, &outcome.status, 0);
    outcome.status = WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 128 + WTERMSIG(outcome.status);
    return outcome;
}

Scratch::Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "spank_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::string Scratch::script(const std::string &name, const std::string &body) const {
    std::ofstream(path(name)) << "#!/bin/sh\n" << body;
    ::chmod(path(name).c_str(), 0755);
    return path(name);
}

std::string Scratch::text(const std::string &name) const {
    const auto read = spider::util::read_file(path(name));
    return read ? read.value() : std::string();
}
