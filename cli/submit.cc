// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow submit`: what the plugin does inside sbatch, from outside, where sbatch's option API is
// missing.
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/exported.h"
#include "cli/placing.h"
#include "cli/sbatch_options.h"
#include "cli/script.h"
#include "plan/summary.h"
#include "util/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

namespace spider::cli {
namespace {

struct Wish {
    Arguments given;     // the command line
    wire::Names options; // of the script, then the environment, then the command line: the last wins
    Script script;       // none with --wrap
};

std::string option(const wire::Names &options, std::string_view name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : found->second;
}

Result<Wish> read_wish(const std::vector<std::string> &words) {
    auto given = read_arguments(words);
    if (!given) return given.error();
    Wish wish{std::move(*given), {}, {}};
    if (wish.given.options.contains("wrap")) {
        if (!wish.given.rest.empty()) return Error{Errc::invalid, "--wrap and a script exclude each other"};
    } else {
        auto script = read_script(wish.given.rest.empty() ? std::string() : wish.given.rest.front());
        if (!script) return script.error();
        wish.script = std::move(*script);
    }
    wish.options = wish.given.options;
    add_missing(wish.options, environment_options(own_environment()));
    add_missing(wish.options, script_options(wish.script.text));
    return wish;
}

std::vector<std::string> sbatch_words(const Wish &wish, const wire::PlanReply &reply) {
    std::vector<std::string> words{"sbatch"};
    words.insert(words.end(), wish.given.passed.begin(), wish.given.passed.end());
    for (const auto &[name, value] : reply.options)
        words.push_back(option_word(name, value)); // the last wins
    words.emplace_back("--requeue"); // a part that gives its GPUs back goes into its queue again
    if (wish.given.options.contains("wrap")) words.push_back("--wrap=" + option(wish.given.options, "wrap"));
    words.insert(words.end(), wish.given.rest.begin(), wish.given.rest.end());
    return words;
}

// sbatch in this process's place: its output is ours, and so is its terminal.
[[noreturn]] void become_sbatch(const std::vector<std::string> &words, const Wish &wish,
                                const wire::PlanReply &reply) {
    for (const auto &[name, value] : reply.environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    ::unsetenv("SLURM_RESTART_COUNT"); // of the job that this runs in
    // Tells the plugin inside sbatch that all is done from here.
    ::setenv("SLURM_SPIDERFLOW_SUBMIT", reply.id.empty() ? "test-only" : reply.id.c_str(), 1);
    if (wish.script.standard_input) ::dup2(wish.script.standard_input.get(), STDIN_FILENO);
    std::vector<char *> argv;
    for (const auto &word : words)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    note(std::string("spiderflow: sbatch: ") + std::strerror(errno));
    ::_exit(127);
}

int status_of(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int tell_placed(const Result<std::string> &placed) {
    if (!placed) return failure(placed.error());
    note("spiderflow: " + printable(*placed));
    return success;
}

int submit(const std::string &socket, const Wish &wish, const Planned &planned) {
    const auto &reply = planned.reply;
    const auto words = sbatch_words(wish, reply);
    std::fflush(stdout);
    const auto child = ::fork();
    if (child < 0) return failure({Errc::system, std::string("sbatch: ") + std::strerror(errno)});
    if (child == 0) become_sbatch(words, wish, reply);
    for (const int signal : {SIGINT, SIGQUIT})
        ::signal(signal, SIG_IGN); // sbatch decides, as under a shell
    std::vector<std::string> arguments;
    if (!wish.given.rest.empty()) arguments.assign(wish.given.rest.begin() + 1, wish.given.rest.end());
    Submission submission{reply.id, arguments, std::nullopt, std::nullopt, planned.travelling};
    if (wish.options.contains("export")) submission.export_value = option(wish.options, "export");
    const bool real = !wish.options.contains("test-only") && !reply.id.empty();
    if (real && wish.options.contains("wait")) { // it is placed while sbatch waits for its end
        submission.submitter = child;
        const int placed = tell_placed(place(socket, submission));
        return std::max(status_of(child), placed);
    }
    const int status = status_of(child);
    if (real && status == 0) return tell_placed(place(socket, submission));
    if (reply.id.empty()) return status;
    wire::Client client(socket);
    if (const auto dropped = client.drop(reply.id); !dropped) failure(dropped.error());
    return status;
}

Result<SpecText> spec_of(const Wish &wish) {
    const auto spec = option(wish.options, "spiderflow");
    const auto defaults = spec_defaults();
    if (spec.empty() && defaults.empty())
        return Error{Errc::invalid,
                     "submit: no SPEC: give --spiderflow=SPEC, on the command line or in an #SBATCH line"};
    if (spec == "off")
        return Error{Errc::invalid, "--spiderflow=off: use sbatch for a job without SpiderFlow"};
    return SpecText{spec, defaults};
}

int run(const Context &context, const std::vector<std::string> &words) {
    const auto wish = read_wish(words);
    if (!wish) return wish.error().code == Errc::invalid ? misuse(wish.error().what) : failure(wish.error());
    const auto spec = spec_of(*wish);
    if (!spec) return misuse(spec.error().what);
    const auto named = option(wish->given.options, "socket");
    const auto socket = wire::socket_path(named.empty() ? context.socket : named);
    const bool test_only = wish->options.contains("test-only");
    const auto planned = ask_plan(socket, *spec, wish->options, test_only);
    if (!planned) return failure(planned.error());
    note("spiderflow: " + printable(planned->reply.line));
    if (test_only) note(plan::table(planned->reply.plan));
    return submit(socket, *wish, *planned);
}

std::string options_help() {
    std::string text =
        "spiderflow submit --spiderflow=SPEC [OPTIONS] [--wrap=COMMAND | SCRIPT [ARGUMENTS...]]\n\n"
        "OPTIONS are these of sbatch(1), before the script:\n";
    for (const auto &option : sbatch_options()) {
        if (option.use == Use::refused) continue;
        std::string words = "  ";
        if (option.letter != 0) words += std::string("-") + option.letter + ", ";
        text += words + "--" + std::string(option.name);
        if (option.name == "spiderflow")
            text += "=SPEC   what to train; see spiderflow(7)";
        else if (option.name == "wrap")
            text += "=COMMAND   instead of a script";
        else if (option.value != Value::none)
            text += option.value == Value::needed ? "=VALUE" : "[=VALUE]";
        text += "\n";
    }
    return text + "Other options of sbatch go into #SBATCH lines of the script.";
}

} // namespace

void add_submit(CLI::App &app, Context &context) {
    auto *submit =
        app.add_subcommand("submit", "The same as sbatch --spiderflow=SPEC, where sbatch cannot do it");
    submit->prefix_command();
    submit->fallthrough(false);
    submit->footer(options_help());
    submit->callback([&context, submit] {
        const auto words = submit->remaining();
        context.run = [&context, words] { return run(context, words); };
    });
}

} // namespace spider::cli
