// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/translate.h"

#include "broker/link_check.h"
#include "launch/environment.h"
#include "launch/part_script.h"
#include "util/comment.h"
#include "util/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace spider::broker {
namespace {

constexpr const char *interface_carrier = "SLURM_SPIDERFLOW_IFNAME";
constexpr const char *spank_variable = "SLURM_SPANK__SLURM_SPANK_OPTION_";

std::string option(const std::map<std::string, std::string> &options, const std::string &name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : found->second;
}

Error bad_option(const std::string &name, const std::string &value, const std::string &expected) {
    return {Errc::invalid, "--" + name + "=" + value + ": expected " + expected};
}

// "gpu:4", "gres:gpu:h100:4", "gres/gpu:2": Slurm releases normalise differently.
std::string plain_gres(std::string entry) {
    for (const std::string_view prefix : {"gres:", "gres/"})
        if (entry.rfind(prefix, 0) == 0) entry.erase(0, prefix.size());
    return entry;
}

bool is_gpu(const std::string &entry) { return entry == "gpu" || entry.rfind("gpu:", 0) == 0; }

Result<int> positive(const wire::Names &options, const std::string &name, bool range) {
    const auto found = options.find(name);
    if (found == options.end()) return 0;
    auto text = found->second;
    if (range && text.find('-') != std::string::npos)
        text = text.substr(text.find('-') + 1); // "2-4": at most 4
    const auto value = util::to_int(text);
    if (!value || *value < 1 || *value > 1'000'000)
        return bad_option(name, found->second, "a number above 0");
    return static_cast<int>(*value);
}

std::string gpu_gres(const std::string &type, int count) {
    return "gpu:" + (type.empty() ? "" : type + ":") + std::to_string(count);
}

// The user's other gres ("lscratch:100") stay.
std::string home_gres(const std::string &asked, const std::string &gpus) {
    std::string gres = gpus;
    for (const auto &raw : util::split(asked, ','))
        if (const auto entry = plain_gres(raw); !entry.empty() && !is_gpu(entry)) gres += "," + entry;
    return gres;
}

} // namespace

std::string comment_of(const coalloc::Job &job, std::size_t part, bool give_back) {
    util::Comment comment{.user = job.user_comment, .job = job.id, .attempt = job.attempt, .word = job.word};
    comment.run = job.parts[part].restarts;
    if (give_back) comment.back = comment.run;
    return util::to_text(comment);
}

wire::Pairs home_options(const coalloc::Job &job, const std::string &gres_type) {
    const auto size = launch::size_of(job.plan, job.plan.parts.front());
    wire::Pairs options{{"nodes", std::to_string(size.nodes)},
                        {"ntasks", std::to_string(size.tasks)},
                        {"ntasks-per-node", std::to_string(size.tasks_per_node)},
                        {"comment", comment_of(job, 0)},
                        {"hold", ""}};
    // Slurm 22.05 refuses a type beside --gpus-per-task=1, and with gpus-per-task=TYPE:1 its tasks see no
    // GPU.
    const auto gpus = gpu_gres(job.options.count("gpus-per-task") ? "" : gres_type, size.gpus_per_node);
    // Only one of the two names may stand: a second request would add to the first.
    if (job.options.count("gpus-per-node"))
        options.emplace_back("gpus-per-node", gpus.substr(4));
    else
        options.emplace_back("gres", home_gres(option(job.options, "gres"), gpus));
    return options;
}

wire::Pairs home_environment(const coalloc::Job &job, const SiteConfig &home, const coalloc::Policy &policy) {
    const auto &part = job.plan.parts.front();
    auto environment = launch::carriers(job.plan, part, job.id, job.attempt);
    environment.emplace_back("SLURM_NTASKS_PER_NODE",
                             std::to_string(launch::size_of(job.plan, part).tasks_per_node));
    environment.emplace_back("SLURM_SPIDERFLOW_PATIENCE", std::to_string(static_cast<int>(policy.patience)));
    if (!home.interface.empty()) environment.emplace_back(interface_carrier, home.interface);
    if (auto check = check_text(job); !check.empty())
        environment.emplace_back(check_carrier, std::move(check));
    return environment;
}

namespace {

std::string expand(std::string text, std::string_view pattern, const std::string &value) {
    for (std::size_t at = 0; (at = text.find(pattern, at)) != std::string::npos; at += value.size())
        text.replace(at, pattern.size(), value);
    return text;
}

} // namespace

Directory directory_of(const coalloc::Job &job, const SiteConfig &site, const std::string &user) {
    if (site.workdir.empty()) return {job.directory, ""};
    const auto path = expand(site.workdir, "%u", user);
    const auto own = path.find("%j");
    if (own == std::string::npos) return {path, ""};
    const auto end = path.rfind('/', own);
    return {end == 0 ? "/" : path.substr(0, end), expand(path.substr(end + 1), "%j", job.id)};
}

namespace {

// The environment of a part elsewhere: the user's own first, then what the site gives, then the carriers.
wire::Pairs part_environment(const coalloc::Job &job, const Part &part, const SiteConfig &site,
                             const std::string &user, const wire::PlaceRequest &request,
                             const coalloc::Policy &policy) {
    wire::Names variables = request.environment;
    variables["PATH"] = site.path;
    variables["HOME"] = expand(site.home, "%u", user);
    variables["USER"] = variables["LOGNAME"] = user;
    const auto directory = directory_of(job, site, user);
    variables["PWD"] = directory.rest.empty()   ? directory.start
                       : directory.start == "/" ? "/" + directory.rest
                                                : directory.start + "/" + directory.rest;
    variables["SLURM_SUBMIT_DIR"] = variables["PWD"];
    for (const auto &[name, value] : launch::carriers(job.plan, part, job.id, job.attempt))
        variables[name] = value;
    variables["SLURM_SPIDERFLOW_PATIENCE"] = std::to_string(static_cast<int>(policy.patience));
    if (!site.interface.empty()) variables[interface_carrier] = site.interface;
    if (auto check = check_text(job); !check.empty()) variables[check_carrier] = std::move(check);
    // As sbatch itself sets it for --gpus-per-task.
    if (job.options.count("gpus-per-task")) variables["SLURM_GPUS_PER_TASK"] = "1";
    // slurmrestd takes no SPANK options; srun inside the job reads such a variable as "--spiderflow"
    // (spank.8).
    for (const auto &[name, value] : request.spank_options)
        variables[std::string(spank_variable) + name] =
            value.empty() ? "(null)" : value; // a bare option is "(null)"
    variables[std::string(spank_variable) + "spiderflow_spiderflow"] = "(null)";
    return {variables.begin(), variables.end()};
}

Result<void> carry_numbers(const wire::Names &options, int gpus_per_node, slurm::Submission &submission) {
    if (const auto text = option({options.begin(), options.end()}, "time"); !text.empty()) {
        auto minutes = util::parse_time_limit(text);
        if (!minutes) return std::move(minutes).error().within("--time");
        submission.time_limit_minutes = *minutes;
    }
    if (const auto nice = options.find("nice"); nice != options.end()) {
        const auto value = util::to_int(nice->second);
        if (!value && !nice->second.empty()) return bad_option("nice", nice->second, "a number");
        submission.nice = static_cast<int>(value.value_or(100)); // sbatch(1): 100 when no value is given
    }
    auto cpus = positive(options, "cpus-per-task", false);
    if (!cpus) return std::move(cpus).error();
    if (*cpus > 0) submission.cpus_per_task = *cpus;
    for (const auto *name : {"mem", "mem-per-cpu", "mem-per-gpu"}) {
        const auto found = options.find(name);
        if (found == options.end()) continue;
        auto megabytes = util::parse_megabytes(found->second);
        if (!megabytes) return std::move(megabytes).error().within("--" + std::string(name));
        if (std::string_view(name) == "mem-per-cpu")
            submission.memory_per_cpu_mb = *megabytes;
        else
            submission.memory_per_node_mb =
                *megabytes * (std::string_view(name) == "mem" ? 1 : gpus_per_node);
    }
    return {};
}

// sbatch has put its own directory in front of a relative --output; a site with another has its own.
std::string file_there(const std::string &path, const coalloc::Job &job, const SiteConfig &site) {
    const auto home = job.directory + "/";
    return !site.workdir.empty() && path.starts_with(home) ? path.substr(home.size()) : path;
}

Result<void> fits(const slurm::Submission &submission, const SiteConfig &site, bool stage) {
    const auto size = static_cast<std::int64_t>(submission.script.size());
    if (size <= site.max_script) return {};
    const bool few = size < 1'000'000;
    const auto amount = [&](std::int64_t bytes) {
        return few ? std::to_string(bytes) + " bytes"
                   : util::number(std::ceil(static_cast<double>(bytes) / 1e5) / 10) + " MB";
    };
    return Error{Errc::invalid, (stage ? "script and stage are " : "the script is ") + amount(size) +
                                    ", the site takes " + amount(site.max_script) +
                                    "; use a file system that both sites see, or a container image"};
}

} // namespace

wire::Names forwarded(const wire::Names &options, const std::vector<std::string> &allowed) {
    wire::Names found;
    for (auto name : allowed) {
        std::replace_if(
            name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
        if (const auto given = options.find(name); given != options.end()) found.insert(*given);
    }
    return found;
}

std::string address_of(const SiteConfig &site, const std::vector<slurm::NodeView> &nodes,
                       const std::string &name) {
    if (const auto given = site.addresses.find(name); given != site.addresses.end()) return given->second;
    const auto node =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto &one) { return one.name == name; });
    return node == nodes.end() || node->address.empty() ? name : node->address;
}

Result<slurm::Submission> submission_of(const coalloc::Job &job, std::size_t index, const SiteConfig &site,
                                        const std::string &gres_type, const wire::PlaceRequest &request,
                                        const coalloc::Policy &policy) {
    const auto &part = job.plan.parts[index];
    const auto &user = job.parts[index].user;
    const auto size = launch::size_of(job.plan, part);
    const auto directory = directory_of(job, site, user);
    auto script =
        launch::guarded_script(request.script, request.arguments,
                               {part.site, directory.rest, request.stage.base64, request.stage.sha256});
    if (!script) return std::move(script).error();

    slurm::Submission submission;
    submission.script = std::move(*script);
    if (auto taken = fits(submission, site, !request.stage.base64.empty()); !taken)
        return std::move(taken).error();
    submission.umask = request.umask;
    submission.name = job.name;
    submission.comment = comment_of(job, index);
    submission.directory = directory.start;
    submission.environment = part_environment(job, part, site, user, request, policy);
    submission.partition = option(job.options, "partition").empty()
                               ? site.partition
                               : mapped(site.partitions, option(job.options, "partition"));
    submission.account = option(job.options, "account").empty()
                             ? site.account
                             : mapped(site.accounts, option(job.options, "account"));
    submission.qos = option(job.options, "qos");
    submission.signal = option(job.options, "signal");
    submission.exclusive = job.options.count("exclusive") ? option(job.options, "exclusive") : "";
    if (job.options.count("exclusive") &&
        (submission.exclusive.empty() || submission.exclusive == "exclusive" ||
         submission.exclusive == "set"))
        submission.exclusive = "true";
    // Two sites may share a file system and give the same job id: the default name tells them apart.
    submission.output = option(job.options, "output").empty()
                            ? "slurm-%j-" + part.site + ".out"
                            : file_there(option(job.options, "output"), job, site);
    submission.error = file_there(option(job.options, "error"), job, site);
    submission.nodes = size.nodes;
    submission.tasks = size.tasks;
    submission.tasks_per_node = size.tasks_per_node;
    submission.gpus_per_node = size.gpus_per_node;
    submission.gpu_type = gres_type;
    submission.hold = true;
    if (auto carried =
            carry_numbers({job.options.begin(), job.options.end()}, size.gpus_per_node, submission);
        !carried)
        return std::move(carried).error();
    return submission;
}

} // namespace spider::broker
