// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/translate.h"

#include "launch/environment.h"
#include "launch/part_script.h"
#include "util/comment.h"
#include "util/text.h"

#include <algorithm>

namespace spider::broker {
namespace {

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

std::string comment_of(const coalloc::Job &job) {
    return util::to_text({.user = job.user_comment, .job = job.id, .attempt = job.attempt, .word = job.word});
}

wire::Pairs home_options(const coalloc::Job &job, const std::string &gres_type) {
    const auto size = launch::size_of(job.plan, job.plan.parts.front());
    wire::Pairs options{{"nodes", std::to_string(size.nodes)},
                        {"ntasks", std::to_string(size.tasks)},
                        {"ntasks-per-node", std::to_string(size.tasks_per_node)},
                        {"comment", comment_of(job)},
                        {"hold", ""}};
    // Only one of the two names may stand: a second request would add to the first.
    if (job.options.count("gpus-per-node"))
        options.emplace_back("gpus-per-node", gpu_gres(gres_type, size.gpus_per_node).substr(4));
    else
        options.emplace_back("gres",
                             home_gres(option(job.options, "gres"), gpu_gres(gres_type, size.gpus_per_node)));
    return options;
}

wire::Pairs home_environment(const coalloc::Job &job, const coalloc::Policy &policy) {
    const auto &part = job.plan.parts.front();
    auto environment = launch::carriers(job.plan, part, job.id, job.attempt);
    environment.emplace_back("SLURM_NTASKS_PER_NODE",
                             std::to_string(launch::size_of(job.plan, part).tasks_per_node));
    environment.emplace_back("SLURM_SPIDERFLOW_PATIENCE", std::to_string(static_cast<int>(policy.patience)));
    return environment;
}

namespace {

std::string expand(std::string text, const std::string &user) {
    for (std::size_t at = 0; (at = text.find("%u", at)) != std::string::npos; at += user.size())
        text.replace(at, 2, user);
    return text;
}

// The environment of a part elsewhere: the user's own first, then what the site gives, then the carriers.
wire::Pairs part_environment(const coalloc::Job &job, const Part &part, const SiteConfig &site,
                             const std::string &user, const std::string &directory, const wire::Names &asked,
                             const coalloc::Policy &policy) {
    wire::Names variables = asked;
    variables["PATH"] = site.path;
    variables["HOME"] = expand(site.home, user);
    variables["USER"] = variables["LOGNAME"] = user;
    variables["PWD"] = directory;
    for (const auto &[name, value] : launch::carriers(job.plan, part, job.id, job.attempt))
        variables[name] = value;
    variables["SLURM_SPIDERFLOW_PATIENCE"] = std::to_string(static_cast<int>(policy.patience));
    // slurmrestd takes no SPANK options; srun inside the job reads this variable as "--spiderflow" (spank.8).
    variables["SLURM_SPANK__SLURM_SPANK_OPTION_spiderflow_spiderflow"] = "(null)";
    return {variables.begin(), variables.end()};
}

Result<void> carry_numbers(const wire::Names &options, int gpus_per_node, slurm::Submission &submission) {
    if (const auto text = option({options.begin(), options.end()}, "time"); !text.empty()) {
        auto minutes = util::parse_time_limit(text);
        if (!minutes) return std::move(minutes).error().within("--time");
        submission.time_limit_minutes = *minutes;
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

} // namespace

Result<slurm::Submission> submission_of(const coalloc::Job &job, std::size_t index, const SiteConfig &site,
                                        const std::string &gres_type, const wire::PlaceRequest &request,
                                        const coalloc::Policy &policy) {
    const auto &part = job.plan.parts[index];
    const auto &user = job.parts[index].user;
    const auto size = launch::size_of(job.plan, part);
    auto script = launch::guarded_script(request.script, request.arguments, part.site);
    if (!script) return std::move(script).error();

    slurm::Submission submission;
    submission.script = std::move(*script);
    submission.umask = request.umask;
    submission.name = job.name;
    submission.comment = comment_of(job);
    submission.directory = site.workdir.empty() ? job.directory : expand(site.workdir, user);
    submission.environment =
        part_environment(job, part, site, user, submission.directory, request.environment, policy);
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
    submission.output = option(job.options, "output").empty() ? "slurm-%j-" + part.site + ".out"
                                                              : option(job.options, "output");
    submission.error = option(job.options, "error");
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
