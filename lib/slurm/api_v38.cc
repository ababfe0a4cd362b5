// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/api_v38.h"

#include "slurm/answer.h"
#include "slurm/environment.h"
#include "slurm/gres.h"
#include "slurm/states.h"
#include "util/text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spider::slurm {
namespace {

using model::Json;

std::string path(std::string_view tail) { return "/slurm/v0.0.38/" + std::string(tail); }
std::string job_path(std::int64_t id) { return path("job/" + std::to_string(id)); }

template <class T>
T whole_at(const Json &object, std::string_view key) {
    const double number = model::number_at(object, key).value_or(0);
    return std::abs(number) < static_cast<double>(std::numeric_limits<T>::max()) ? static_cast<T>(number)
                                                                                 : T{0};
}

// Texts with which Slurm says that there is none.
std::string text_or_none(const Json &object, std::string_view key) {
    std::string text = model::text_at(object, key);
    for (const auto none : {"(null)", "N/A", "n/a", "None"})
        if (text == none) text.clear();
    return text;
}

NodeView node_view(const Json &json) {
    NodeView node;
    node.name = model::text_at(json, "name");
    node.address = model::text_at(json, "address");
    node.hostname = model::text_at(json, "hostname");
    node.state = upper(model::text_at(json, "state", "UNKNOWN"));
    for (const auto &flag : model::texts_at(json, "state_flags"))
        node.flags.push_back(upper(flag));
    node.cpus = whole_at<int>(json, "cpus");
    node.used_cpus = whole_at<int>(json, "alloc_cpus");
    node.memory_mb = whole_at<std::int64_t>(json, "real_memory");
    node.used_memory_mb = whole_at<std::int64_t>(json, "alloc_memory");
    node.gpus = read_gpus(model::text_at(json, "gres"));
    count_used(node.gpus, model::text_at(json, "gres_used"), model::text_at(json, "tres_used"));
    node.partitions = model::texts_at(json, "partitions");
    node.features = model::texts_at(json, "active_features");
    judge(node);
    return node;
}

JobView job_view(const Json &json) {
    JobView job;
    job.id = whole_at<std::int64_t>(json, "job_id");
    job.user = model::text_at(json, "user_name");
    job.name = model::text_at(json, "name");
    job.comment = model::text_at(json, "comment");
    job.partition = model::text_at(json, "partition");
    job.state_text = upper(model::text_at(json, "job_state"));
    job.state = job_state(job.state_text);
    job.reason = text_or_none(json, "state_reason");
    // "hold" is always null here; held is priority 0, and 0 is also what a running job may have.
    const auto priority = model::number_at(json, "priority");
    job.held =
        job.state == JobState::pending && (priority ? *priority == 0 : job.reason.starts_with("JobHeld"));
    job.nodes = text_or_none(json, "nodes");
    if (job.nodes.empty()) job.nodes = text_or_none(model::at(json, "job_resources"), "nodes");
    job.batch_host = text_or_none(json, "batch_host");
    job.dependency = text_or_none(json, "dependency");
    job.time_limit_minutes = whole_at<int>(json, "time_limit");
    const int status = whole_at<int>(json, "exit_code"); // as wait(2) gives it
    job.exit_code = status >> 8 & 0xff;
    job.exit_signal = status & 0x7f;
    job.submit_time = whole_at<std::int64_t>(json, "submit_time");
    job.eligible_time = whole_at<std::int64_t>(json, "eligible_time");
    job.start_time = whole_at<std::int64_t>(json, "start_time");
    job.end_time = whole_at<std::int64_t>(json, "end_time");
    job.restarts = whole_at<int>(json, "restart_cnt");
    return job;
}

struct TextField {
    const char *key;
    std::string Submission::*member;
};
constexpr TextField text_fields[] = {
    {"name", &Submission::name},
    {"account", &Submission::account},
    {"partition", &Submission::partition},
    {"qos", &Submission::qos},
    {"comment", &Submission::comment},
    {"current_working_directory", &Submission::directory},
    {"standard_output", &Submission::output},
    {"standard_error", &Submission::error},
    {"signal", &Submission::signal},
    {"constraints", &Submission::constraints},
};

void put_sizes(Json &job, const Submission &submission) {
    job["nodes"] = submission.nodes; // [2,2] would set the minimum only
    job["tasks"] = submission.tasks;
    job["tasks_per_node"] = submission.tasks_per_node;
    if (submission.gpus_per_node > 0)
        job["gres"] = "gpu:" + submission.gpu_type + (submission.gpu_type.empty() ? "" : ":") +
                      std::to_string(submission.gpus_per_node);
    if (submission.cpus_per_task) job["cpus_per_task"] = *submission.cpus_per_task;
    if (submission.memory_per_node_mb) job["memory_per_node"] = *submission.memory_per_node_mb;
    if (submission.memory_per_cpu_mb) job["memory_per_cpu"] = *submission.memory_per_cpu_mb;
    if (submission.time_limit_minutes)
        job["time_limit"] = std::max<std::int64_t>(*submission.time_limit_minutes, 0); // 0: no limit
}

// The array `key` of a good answer.
Result<Json> list_of(const Reply &reply, std::string_view key) {
    auto answer = read_answer(reply);
    if (!answer) return std::move(answer).error();
    if (!answer->good()) return refusal(*answer);
    const Json &list = model::at(answer->json, key);
    if (!list.is_array()) return Error{Errc::protocol, "the answer has no \"" + std::string(key) + "\""};
    return list;
}

} // namespace

Call ApiV38::ping() const { return {"GET", path("ping"), ""}; }
Call ApiV38::nodes() const { return {"GET", path("nodes"), ""}; }
Call ApiV38::job(std::int64_t id) const { return {"GET", job_path(id), ""}; }
Call ApiV38::cancel(std::int64_t id) const { return {"DELETE", job_path(id), ""}; }

Call ApiV38::jobs(std::int64_t changed_since) const {
    return {"GET", path(changed_since > 0 ? "jobs?update_time=" + std::to_string(changed_since) : "jobs"),
            ""};
}

Call ApiV38::update(std::int64_t id, const Update &what) const {
    Json fields = Json::object();
    if (what.comment) fields["comment"] = *what.comment;
    if (what.hold) fields["hold"] = *what.hold;
    if (what.begin_now) fields["begin_time"] = "now";
    return {"POST", job_path(id), model::print_json(fields)};
}

Call ApiV38::submit(const Submission &submission) const {
    Json job = Json::object();
    for (const TextField &field : text_fields)
        if (const std::string &text = submission.*field.member; !text.empty()) job[field.key] = text;
    put_sizes(job, submission);
    // The schema's word for whole nodes, "true", is refused.
    if (!submission.exclusive.empty())
        job["exclusive"] = submission.exclusive == "true" ? "exclusive" : submission.exclusive;
    job["environment"] = Json::object();
    for (const auto &[key, value] : job_environment(submission))
        job["environment"][key] = value;
    job["hold"] = submission.hold;
    if (submission.nice) job["nice"] = *submission.nice;
    // The schema's "requeue": false turns it on.
    job[submission.requeue ? "requeue" : "no_requeue"] = true;
    return {"POST", path("job/submit"), model::print_json(Json{{"job", job}, {"script", submission.script}})};
}

Result<bool> ApiV38::read_ping(const Reply &reply) const {
    auto pings = list_of(reply, "pings");
    if (!pings) return std::move(pings).error().within("ping");
    return std::any_of(pings->begin(), pings->end(),
                       [](const Json &one) { return model::text_at(one, "ping") == "UP"; });
}

Result<std::vector<NodeView>> ApiV38::read_nodes(const Reply &reply) const {
    auto list = list_of(reply, "nodes");
    if (!list) return std::move(list).error().within("nodes");
    std::vector<NodeView> nodes;
    for (const Json &json : *list)
        if (NodeView node = node_view(json); !node.name.empty()) nodes.push_back(std::move(node));
    return nodes;
}

Result<JobView> ApiV38::read_job(const Reply &reply) const {
    auto list = list_of(reply, "jobs");
    if (!list) return std::move(list).error().within("job");
    if (list->empty()) return Error{Errc::not_found, "job: the site knows no such job"};
    return job_view(list->front());
}

Result<std::optional<std::vector<JobView>>> ApiV38::read_jobs(const Reply &reply) const {
    if (reply.status == 304) return std::optional<std::vector<JobView>>();
    auto list = list_of(reply, "jobs");
    if (!list) return std::move(list).error().within("jobs");
    std::vector<JobView> jobs;
    for (const Json &json : *list)
        if (JobView job = job_view(json); job.id > 0) jobs.push_back(std::move(job));
    return std::optional(std::move(jobs));
}

// HTTP 200 is no success and an error is no failure: a job exists iff there is a job_id. That it is held is
// reported as error 2042.
Result<Submitted> ApiV38::read_submit(const Reply &reply) const {
    auto answer = read_answer(reply);
    if (!answer) return std::move(answer).error().within("submit");
    auto &errors = answer->errors;
    const auto job = whole_at<std::int64_t>(answer->json, "job_id");
    if (job > 0) {
        std::erase_if(errors, [](const SiteError &error) { return error.number == slurm_job_held; });
        return Submitted{job, words(errors)};
    }
    Error error = refusal(*answer);
    if (errors.size() == 1 && errors.front().number == -1)
        error = {Errc::refused,
                 "HTTP " + std::to_string(answer->status) + ": " + words(errors) +
                     ": this Slurm does not pass on why; the site's job_submit plugin may have refused it"};
    if (error.what.find("SIGNAL") != error.what.npos) error.what += "; Slurm 22.05 takes no \"B:\" over REST";
    if (const auto said = model::text_at(answer->json, "job_submit_user_msg"); !said.empty())
        error.what += ": " + one_line(said);
    return std::move(error).within("submit");
}

Result<void> ApiV38::read_update(const Reply &reply) const {
    auto answer = read_answer(reply);
    if (!answer) return std::move(answer).error().within("update");
    if (!answer->good()) return refusal(*answer).within("update");
    return {};
}

Result<Cancelled> ApiV38::read_cancel(const Reply &reply) const {
    auto answer = read_answer(reply);
    if (!answer) return std::move(answer).error().within("cancel");
    if (answer->has(slurm_unknown_job) || answer->has(slurm_job_finished)) return Cancelled::already_gone;
    if (!answer->good()) return refusal(*answer).within("cancel");
    return Cancelled::asked;
}

} // namespace spider::slurm
