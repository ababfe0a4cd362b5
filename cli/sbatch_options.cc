// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/sbatch_options.h"

#include "util/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace spider::cli {
namespace {

constexpr std::array table{
    SbatchOption{"account", 'A', Value::needed, Use::carried, "SBATCH_ACCOUNT"},
    SbatchOption{"array", 'a', Value::needed, Use::refused, "SBATCH_ARRAY_INX", "submit the jobs one by one"},
    SbatchOption{"begin", 'b'},
    SbatchOption{"chdir", 'D'},
    SbatchOption{"clusters", 'M', Value::needed, Use::refused, "SBATCH_CLUSTERS",
                 "name the sites in SPEC: sites=a+b (and unset SLURM_CLUSTERS, SBATCH_CLUSTERS)"},
    SbatchOption{"comment"},
    SbatchOption{"constraint", 'C', Value::needed, Use::carried, "SBATCH_CONSTRAINT"},
    SbatchOption{"cpus-per-task", 'c'},
    SbatchOption{"deadline"},
    SbatchOption{"dependency", 'd'},
    SbatchOption{"error", 'e', Value::needed, Use::carried, "SBATCH_ERROR"},
    SbatchOption{"exclude", 'x'},
    SbatchOption{"exclusive", 0, Value::optional, Use::carried, "SBATCH_EXCLUSIVE"},
    SbatchOption{"export", 0, Value::needed, Use::carried, "SBATCH_EXPORT"},
    SbatchOption{"gpus", 'G', Value::needed, Use::refused, "SBATCH_GPUS",
                 "limit them with --gres=gpu:N and --nodes"},
    SbatchOption{"gpus-per-node", 0, Value::needed, Use::carried, "SBATCH_GPUS_PER_NODE"},
    SbatchOption{"gpus-per-task", 0, Value::needed, Use::carried, "SBATCH_GPUS_PER_TASK",
                 "a plan has one task for each GPU: --gpus-per-task=1; limit them with --gres=gpu:N", "1"},
    SbatchOption{"gres", 0, Value::needed, Use::carried, "SBATCH_GRES"},
    SbatchOption{"hold", 'H', Value::none},
    SbatchOption{"job-name", 'J', Value::needed, Use::carried, "SBATCH_JOB_NAME"},
    SbatchOption{"mem", 0, Value::needed, Use::carried, "SBATCH_MEM_PER_NODE"},
    SbatchOption{"mem-per-cpu", 0, Value::needed, Use::carried, "SBATCH_MEM_PER_CPU"},
    SbatchOption{"mem-per-gpu", 0, Value::needed, Use::carried, "SBATCH_MEM_PER_GPU"},
    SbatchOption{"nice", 0, Value::optional},
    SbatchOption{"no-requeue", 0, Value::none, Use::carried, "SBATCH_NO_REQUEUE", {}, {}, "requeue"},
    SbatchOption{"nodelist", 'w'},
    SbatchOption{"nodes", 'N'},
    SbatchOption{"ntasks", 'n'},
    SbatchOption{"ntasks-per-node"},
    SbatchOption{"output", 'o', Value::needed, Use::carried, "SBATCH_OUTPUT"},
    SbatchOption{"parsable", 0, Value::none, Use::passed},
    SbatchOption{"partition", 'p', Value::needed, Use::carried, "SBATCH_PARTITION"},
    SbatchOption{"qos", 'q', Value::needed, Use::carried, "SBATCH_QOS"},
    SbatchOption{"quiet", 'Q', Value::none, Use::passed},
    SbatchOption{"requeue", 0, Value::none, Use::carried, "SBATCH_REQUEUE", {}, {}, "no-requeue"},
    SbatchOption{"signal", 0, Value::needed, Use::carried, "SBATCH_SIGNAL"},
    SbatchOption{"socket", 0, Value::needed, Use::ours},
    SbatchOption{"spiderflow", 0, Value::needed, Use::ours},
    SbatchOption{"test-only", 0, Value::none},
    SbatchOption{"time", 't', Value::needed, Use::carried, "SBATCH_TIMELIMIT"},
    SbatchOption{"wait", 'W', Value::none, Use::carried, "SBATCH_WAIT"},
    SbatchOption{"wrap", 0, Value::needed, Use::ours},
};

const SbatchOption *by_letter(char letter) {
    const auto *found = std::find_if(table.begin(), table.end(),
                                     [&](const SbatchOption &option) { return option.letter == letter; });
    return found == table.end() ? nullptr : found;
}

// getopt_long() takes any unambiguous beginning of a name.
Result<const SbatchOption *> by_beginning(std::string_view name) {
    if (const auto *exact = sbatch_option(name)) return exact;
    const SbatchOption *found = nullptr;
    for (const auto &option : table) {
        if (name.empty() || !option.name.starts_with(name)) continue;
        if (found != nullptr) return Error{Errc::invalid, "--" + std::string(name) + ": ambiguous option"};
        found = &option;
    }
    if (found == nullptr)
        return Error{Errc::invalid,
                     "--" + std::string(name) +
                         ": not an option of spiderflow submit; give it in an #SBATCH line of the script"};
    return found;
}

struct Read {
    const SbatchOption *option;
    std::string value;
    std::size_t words; // used up
};

Result<Read> with_next(const SbatchOption *option, const std::vector<std::string> &words, std::size_t at) {
    if (at + 1 >= words.size()) return Error{Errc::invalid, words[at] + ": a value is missing"};
    return Read{option, words[at + 1], 2};
}

Result<Read> read_long(const std::vector<std::string> &words, std::size_t at) {
    const auto word = std::string_view(words[at]).substr(2);
    const auto equal = word.find('=');
    const auto option = by_beginning(word.substr(0, equal));
    if (!option) return option.error();
    if (equal != std::string_view::npos) {
        if ((*option)->value == Value::none) return Error{Errc::invalid, words[at] + ": takes no value"};
        return Read{*option, std::string(word.substr(equal + 1)), 1};
    }
    if ((*option)->value == Value::needed) return with_next(*option, words, at);
    return Read{*option, {}, 1};
}

Result<Read> read_short(const std::vector<std::string> &words, std::size_t at) {
    const auto &word = words[at];
    const auto *option = by_letter(word[1]);
    if (option == nullptr)
        return Error{Errc::invalid,
                     word + ": not an option of spiderflow submit; give it in an #SBATCH line of the script"};
    if (option->value == Value::needed) {
        if (word.size() > 2) return Read{option, word.substr(2), 1};
        return with_next(option, words, at);
    }
    if (word.size() > 2) return Error{Errc::invalid, word + ": give one option per word"};
    return Read{option, {}, 1};
}

Result<Read> read_option(const std::vector<std::string> &words, std::size_t at) {
    return words[at].starts_with("--") ? read_long(words, at) : read_short(words, at);
}

void set_option(wire::Names &options, const SbatchOption &option, const std::string &value) {
    if (!option.opposite.empty()) options.erase(std::string(option.opposite));
    options[std::string(option.name)] = value;
}

bool is_option(const std::string &word) { return word.size() > 1 && word[0] == '-'; }

// The words of one #SBATCH line: quotes and backslashes as in a shell, '#' begins a comment.
std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    char quote = 0;
    bool open = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
            word += line[++i];
            open = true;
        } else if (quote != 0) {
            if (c == quote)
                quote = 0;
            else
                word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            open = true;
        } else if (std::isspace(static_cast<unsigned char>(c)) != 0 || (c == '#' && !open)) {
            if (open) words.push_back(std::exchange(word, {}));
            open = false;
            if (c == '#') return words;
        } else {
            word += c;
            open = true;
        }
    }
    if (open) words.push_back(word);
    return words;
}

// Unknown options are skipped with everything up to the next word that looks like an option.
void add_line(std::string_view line, wire::Names &options) {
    const auto words = words_of(line);
    if (!words.empty() && (words[0] == "hetjob" || words[0] == "packjob")) options["hetjob"] = "";
    for (std::size_t at = 0; at < words.size();) {
        const auto read = is_option(words[at]) ? read_option(words, at) : Error{};
        if (read && read->option->use != Use::passed) set_option(options, *read->option, read->value);
        at += read ? read->words : 1;
    }
}

} // namespace

std::span<const SbatchOption> sbatch_options() { return table; }

const SbatchOption *sbatch_option(std::string_view name) {
    const auto *found = std::find_if(table.begin(), table.end(),
                                     [&](const SbatchOption &option) { return option.name == name; });
    return found == table.end() ? nullptr : found;
}

Result<Arguments> read_arguments(const std::vector<std::string> &words) {
    Arguments arguments;
    std::size_t at = 0;
    while (at < words.size() && is_option(words[at])) {
        if (words[at] == "--") {
            ++at;
            break;
        }
        const auto read = read_option(words, at);
        if (!read) return read.error();
        set_option(arguments.options, *read->option, read->value);
        for (std::size_t i = 0; i < read->words; ++i)
            if (read->option->use != Use::ours) arguments.passed.push_back(words[at + i]);
        at += read->words;
    }
    arguments.rest.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    if (!arguments.rest.empty() && arguments.rest.front() == ":") arguments.options["hetjob"] = "";
    return arguments;
}

wire::Names script_options(std::string_view script) {
    constexpr std::string_view mark = "#SBATCH";
    wire::Names options;
    for (std::size_t begin = 0; begin < script.size();) {
        const auto end = std::min(script.find('\n', begin), script.size());
        const auto line = script.substr(begin, end - begin);
        begin = end + 1;
        const auto text = util::trim(line);
        if (!text.empty() && text[0] != '#') break; // the first command ends sbatch's reading
        if (line.starts_with(mark)) add_line(line.substr(mark.size()), options);
    }
    return options;
}

wire::Names environment_options(std::span<const std::string> environment) {
    wire::Names options;
    for (const auto &entry : environment) {
        const auto name = std::string_view(entry).substr(0, entry.find('='));
        const auto value = name.size() < entry.size() ? entry.substr(name.size() + 1) : std::string();
        if (name == "SLURM_CLUSTERS") options.try_emplace("clusters", value);
        for (const auto &option : table)
            if (!option.variable.empty() && option.variable == name)
                set_option(options, option, option.value == Value::none ? "" : value);
    }
    return options;
}

void add_missing(wire::Names &options, const wire::Names &less) {
    for (const auto &[name, value] : less) {
        const auto *option = sbatch_option(name);
        const auto opposite = option == nullptr ? std::string() : std::string(option->opposite);
        if (opposite.empty() || !options.contains(opposite)) options.try_emplace(name, value);
    }
}

std::optional<Error> refusal(const wire::Names &options) {
    if (options.contains("hetjob"))
        return Error{Errc::invalid,
                     "a heterogeneous job cannot be a federated one; SpiderFlow chooses the nodes"};
    for (const auto &[name, value] : options) {
        const auto *option = sbatch_option(name);
        if (option == nullptr) continue;
        const bool other = !option->only.empty() && value != option->only;
        if (option->use != Use::refused && !other) continue;
        return Error{Errc::invalid, "--" + name + (other ? "=" + value : "") +
                                        " is not possible with --spiderflow in this version; " +
                                        std::string(option->cure)};
    }
    return std::nullopt;
}

wire::Names carried(const wire::Names &options) {
    wire::Names kept;
    for (const auto &[name, value] : options)
        if (const auto *option = sbatch_option(name); option != nullptr && option->use == Use::carried)
            kept[name] = value;
    return kept;
}

std::string option_word(const std::string &name, const std::string &value) {
    const auto *option = sbatch_option(name);
    const bool bare = option != nullptr ? option->value != Value::needed && value.empty() : value.empty();
    return bare ? "--" + name : "--" + name + "=" + value;
}

} // namespace spider::cli
