// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow profile`: has PyTorch time a layer here, and writes what spiderflow-model(5) calls a profile.
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/table.h"
#include "config.h"
#include "model/gpu_table.h"
#include "model/model_file.h"
#include "plan/cost.h"
#include "plan/workload.h"
#include "util/fd.h"
#include "util/process.h"
#include "util/text.h"

#include <array>
#include <cctype>
#include <limits>
#include <memory>
#include <utility>

namespace spider::cli {
namespace {

constexpr Seconds patience = 3600; // large layers on a CPU take minutes
constexpr int no_torch = 3;        // exit status of profile_layers.py

struct Given {
    std::string model, gpu, device, dtype, recompute = "none", output;
    int sequence = 0; // 0: the model's usual one
    int micro_batch = 1, tp = 1, repeat = 10;
};

struct Subject {
    Json config;
    JobSpec job; // what is measured, in the words of the formulas
};

// What profile_layers.py does not build, as the end of a sentence; empty when it builds the model.
std::string not_built(const ModelSpec &model, int sequence) {
    if (model.experts) return "a mixture of experts is not measured yet";
    if (model.latent) return "latent attention is not measured yet";
    if (model.window && model.window->tokens < sequence)
        return "attention over a window is not measured yet; its " + std::to_string(model.window->tokens) +
               " tokens are fewer than the sequence's " + std::to_string(sequence) + ": give a shorter --seq";
    return {};
}

Result<Subject> read_subject(const Given &given) {
    auto file = model::read_model_file(given.model);
    if (!file) return file.error();
    auto &model = file->model;
    if (model.costs || !model.measurements.empty())
        return Error{Errc::invalid,
                     given.model + ": expected a Hugging Face config.json, not costs or times"};
    auto config = model::read_json_file(given.model);
    if (!config) config = model::read_json_file(given.model + "/config.json");
    if (!config) return config.error();
    Subject subject{std::move(*config), {}};
    subject.job.sequence = given.sequence > 0 ? given.sequence : file->sequence;
    subject.job.micro_batch = given.micro_batch;
    subject.job.recompute = model::recompute_named(given.recompute).value_or(Recompute::none);
    auto trouble = not_built(model, subject.job.sequence);
    if (trouble.empty()) trouble = plan::trouble_with_tensor_size(model, given.tp);
    if (!trouble.empty()) return Error{Errc::invalid, given.model + ": " + trouble};
    subject.job.model = std::move(model);
    return subject;
}

// The longest known type that begins a word of a CUDA device's name: "NVIDIA H100 PCIe" is an h100_pcie.
// A part of a GPU (MIG) is none of them.
std::string type_of_device(std::string_view name) {
    std::string text = "_";
    for (const char c : name)
        text += std::isalnum(static_cast<unsigned char>(c)) != 0
                    ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                    : '_';
    std::string best;
    if (text.find("_mig_") != std::string::npos) return best;
    for (const auto &word : util::split(model::known_gpu_types(), ',')) {
        const std::string type(util::trim(word));
        const auto at = text.find("_" + type);
        if (at == std::string::npos || type.size() <= best.size()) continue;
        const auto next = at + 1 + type.size();
        if (next == text.size() || std::isdigit(static_cast<unsigned char>(text[next])) == 0) best = type;
    }
    return best;
}

std::string script_path() {
    const auto folder = environment_value("SPIDERFLOW_DATADIR");
    return (folder.empty() ? SF_DATADIR : folder) + "/profile_layers.py";
}

std::string last_line(std::string_view text) {
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    const auto end = text.rfind('\n');
    return std::string(end == std::string_view::npos ? text : text.substr(end + 1));
}

Result<Json> answer_of(const std::string &python, const util::Finished &finished) {
    const auto said = last_line(finished.status == 0 ? finished.out : finished.err);
    if (finished.status > 128)
        return Error{Errc::system, python + ": ended by signal " + std::to_string(finished.status - 128) +
                                       "; signal 9 mostly means that the memory was not enough"};
    if (finished.status != 0)
        return Error{Errc::refused,
                     said.empty() ? python + ": exit status " + std::to_string(finished.status) : said};
    auto answer = model::parse_json(said);
    if (!answer) return Error{Errc::protocol, python + ": " + script_path() + " gave no times"};
    return answer;
}

// The answer of the first Python that has PyTorch.
Result<Json> ask_python(const std::string &request) {
    const auto wanted = environment_value("SPIDERFLOW_PYTHON");
    const auto pythons =
        wanted.empty() ? std::vector<std::string>{"python3", "/usr/bin/python3"} : std::vector{wanted};
    std::vector<std::string> reasons;
    for (const auto &python : pythons) {
        const auto finished = util::run(
            {.argv = {python, script_path()}, .input = request, .deadline = patience, .search_path = true});
        if (finished && finished->status != no_torch) return answer_of(python, *finished);
        if (!finished && finished.error().code != Errc::system) return finished.error();
        reasons.push_back(finished ? python + ": " + last_line(finished->err) : finished.error().what);
    }
    return Error{Errc::not_found, "no Python with PyTorch: " + util::join(reasons, "; ") +
                                      "; install it, or name one in SPIDERFLOW_PYTHON"};
}

std::string request_of(const Given &given, const Subject &subject) {
    return model::print_json({{"model", model::to_json(subject.job.model)},
                              {"sequence", subject.job.sequence},
                              {"micro_batch", given.micro_batch},
                              {"tp", given.tp},
                              {"recompute", given.recompute},
                              {"gpu", given.gpu},
                              {"device", given.device},
                              {"dtype", given.dtype},
                              {"repeat", given.repeat}});
}

// What was built must be the model: as many parameters as the formulas count.
Result<void> compare_parameters(const ModelSpec &model, const Json &answer) {
    struct Part {
        const char *key;
        double counted;
    };
    for (const auto &part : {Part{"layer_parameters", plan::layer_parameters(model, 0)},
                             Part{"head_parameters", plan::head_parameters(model)}}) {
        const auto built = model::number_at(answer, part.key).value_or(0);
        if (built != part.counted)
            return Error{Errc::protocol, script_path() + ": " + part.key + " is " + util::number(built, 15) +
                                             ", the model has " + util::number(part.counted, 15)};
    }
    return {};
}

// What the formulas add for a slot of several GPUs: all-reduces cost nothing on an endless fabric.
plan::Times all_reduces(const JobSpec &job, const GpuType &gpu, int tp) {
    auto endless = gpu;
    endless.fabric = std::numeric_limits<double>::infinity();
    const auto with = plan::layer_times(job, gpu, tp, 0), without = plan::layer_times(job, endless, tp, 0);
    return {with.forward - without.forward, with.backward - without.backward};
}

std::string note_of(const Given &given, const Json &answer, const plan::Times &reduces) {
    auto text = "spiderflow " PACKAGE_VERSION " on " + model::text_at(answer, "device") + ", PyTorch " +
                model::text_at(answer, "torch") + ", " + model::text_at(answer, "dtype") + ", median of " +
                std::to_string(given.repeat);
    if (given.tp > 1)
        text += "; one GPU's share was run, and the formula's all-reduces of " +
                util::number(reduces.forward, 3) + " s forward, " + util::number(reduces.backward, 3) +
                " s backward added to the layer";
    return text;
}

// The profile, but for the model's configuration.
Result<Json> measurement_of(const Given &given, const Subject &subject, const Json &answer) {
    const auto device = model::text_at(answer, "device");
    const auto gpu = model::gpu_type_named(given.gpu.empty() ? type_of_device(device) : given.gpu);
    if (!gpu) return Error{Errc::invalid, "the device '" + device + "' is of no known type; give --gpu TYPE"};
    auto job = subject.job;
    job.precision = model::precision_named(model::text_at(answer, "dtype")).value_or(job.precision);
    const auto reduces = all_reduces(job, *gpu, given.tp);
    Json measured{
        {"note", note_of(given, answer, reduces)}, {"gpu", gpu->name}, {"sequence", job.sequence},
        {"micro_batch", job.micro_batch},          {"tp", given.tp},   {"recompute", given.recompute}};
    const std::array<std::pair<const char *, Seconds>, 4> times{{{"layer_forward_seconds", reduces.forward},
                                                                 {"layer_backward_seconds", reduces.backward},
                                                                 {"head_forward_seconds", 0},
                                                                 {"head_backward_seconds", 0}}};
    for (const auto &[key, more] : times) {
        const auto seconds = model::number_at(answer, key).value_or(0);
        if (!(seconds > 0)) return Error{Errc::protocol, script_path() + ": " + key + ": not above 0"};
        measured[key] = seconds + more;
    }
    return measured;
}

Result<Json> measure(const Given &given, const Subject &subject) {
    const auto answer = ask_python(request_of(given, subject));
    if (!answer) return answer.error();
    if (given.tp == 1)
        if (const auto same = compare_parameters(subject.job.model, *answer); !same) return same.error();
    return measurement_of(given, subject, *answer);
}

void show(const Json &measured) {
    print_line(printable(model::text_at(measured, "gpu") + ": " + model::text_at(measured, "note")));
    Table seconds({{"SECONDS"}, {"FORWARD", true}, {"BACKWARD", true}});
    for (const std::string part : {"layer", "head"}) {
        const auto of = [&](const char *way) {
            return util::number(model::number_at(measured, part + way).value_or(0), 4);
        };
        seconds.add({part, of("_forward_seconds"), of("_backward_seconds")});
    }
    print(seconds.text());
}

int run(const Given &given) {
    const auto subject = read_subject(given);
    if (!subject) return misuse(subject.error().what);
    if (!given.gpu.empty() && !model::gpu_type_named(given.gpu))
        return misuse("--gpu: unknown type '" + given.gpu + "'; known: " + model::known_gpu_types());
    if (const auto target = util::replaceable(given.output); !target) return failure(target.error());
    const auto measured = measure(given, *subject);
    if (!measured) return failure(measured.error().within("profile"));
    auto profile = *measured;
    profile["model"] = subject->config;
    const auto text = model::print_json({{"profile", profile}}, 1) + "\n";
    if (const auto written = util::replace_file(given.output, text); !written)
        return failure(written.error());
    show(*measured);
    return success;
}

} // namespace

void add_profile(CLI::App &app, Context &context) {
    auto given = std::make_shared<Given>();
    auto *profile = app.add_subcommand("profile", "Measure a model's layers on this node, for plans");
    const auto number = [profile](const char *name, int &value, int most, const char *what) {
        profile->add_option(name, value, what)->option_text("N")->check(CLI::Range(1, most));
    };
    const auto choice = [profile](const char *name, std::string &value, const char *text, const char *what) {
        profile->add_option(name, value, what)
            ->option_text(text)
            ->check(CLI::IsMember(util::split(text, '|')));
    };
    const auto text = [profile](const char *name, std::string &value, const char *kind, const char *what) {
        return profile->add_option(name, value, what)->option_text(kind);
    };
    text("--model", given->model, "FILE", "the model: a Hugging Face config.json or its folder")->required();
    text("--output", given->output, "FILE", "where the profile goes")->required();
    number("--seq", given->sequence, 100'000'000, "tokens per sequence (default: as plan does)");
    number("--mbs", given->micro_batch, 1'000'000, "sequences per micro-batch (1)");
    number("--tp", given->tp, 1024, "GPUs of a slot; the share of one of them is run (1)");
    choice("--recompute", given->recompute, "none|full", "what the trainer computes again (none)");
    choice("--dtype", given->dtype, "bf16|fp16|fp32", "precision (bf16; fp32 on the CPU)");
    text("--gpu", given->gpu, "TYPE", "the GPU's type (default: from the device's name)");
    choice("--device", given->device, "cuda|cpu", "what to run on (default: cuda if there is one)");
    number("--repeat", given->repeat, 100'000, "runs, of which the median counts (10)");
    profile->callback([&context, given] { context.run = [given] { return run(*given); }; });
}

} // namespace spider::cli
