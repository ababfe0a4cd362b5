// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/job.h"

#include <array>

namespace spider::coalloc {
namespace {

constexpr std::array<std::string_view, 9> part_state_names{
    "unsubmitted", "unknown", "held", "pending", "running", "completed", "failed", "cancelled", "gone"};
static_assert(part_state_names.size() == static_cast<std::size_t>(PartState::gone) + 1);

std::optional<PartState> part_state_named(std::string_view text) {
    for (std::size_t i = 0; i < part_state_names.size(); ++i)
        if (part_state_names[i] == text) return static_cast<PartState>(i);
    return std::nullopt;
}

std::int64_t whole(const Json &json, std::string_view key) {
    return static_cast<std::int64_t>(number_at(json, key).value_or(0));
}

Json part_json(const PartRecord &part) {
    return Json{{"site", part.site},
                {"job", part.job},
                {"user", part.user},
                {"state", name(part.state)},
                {"slurm_state", part.slurm_state},
                {"exit_status", part.exit_status},
                {"hosts", part.hosts},
                {"directory", part.directory},
                {"output", part.output},
                {"error", part.error},
                {"word_given", part.word_given}};
}

Result<PartRecord> part_from(const Json &json) {
    const auto state = part_state_named(text_at(json, "state"));
    if (!state) return Error{Errc::invalid, "part: unknown state '" + text_at(json, "state") + "'"};
    PartRecord part;
    part.site = text_at(json, "site");
    part.job = whole(json, "job");
    part.user = text_at(json, "user");
    part.state = *state;
    part.slurm_state = text_at(json, "slurm_state");
    part.exit_status = static_cast<int>(whole(json, "exit_status"));
    part.hosts = text_at(json, "hosts");
    part.directory = text_at(json, "directory");
    part.output = text_at(json, "output");
    part.error = text_at(json, "error");
    part.word_given = bool_at(json, "word_given");
    return part;
}

} // namespace

std::string_view name(PartState state) { return part_state_names[static_cast<std::size_t>(state)]; }

Json to_json(const Job &job) {
    Json options = Json::object(), parts = Json::array(), history = Json::array();
    for (const auto &[key, value] : job.options)
        options[key] = value;
    for (const auto &part : job.parts)
        parts.push_back(part_json(part));
    for (const auto &line : job.history)
        history.push_back(Json{{"at", line.at}, {"state", name(line.state)}, {"why", line.why}});
    return Json{{"id", job.id},
                {"sequence", job.sequence},
                {"user", job.user},
                {"uid", job.uid},
                {"name", job.name},
                {"attempt", job.attempt},
                {"state", name(job.state)},
                {"cancelled", job.cancelled},
                {"reason", job.reason},
                {"submitted", job.submitted},
                {"entered", job.entered},
                {"user_comment", job.user_comment},
                {"options", options},
                {"directory", job.directory},
                {"plan", model::to_json(job.plan)},
                {"word", job.word},
                {"parts", parts},
                {"history", history}};
}

Result<Job> job_from_json(const Json &json) {
    const auto state = state_named(text_at(json, "state"));
    if (!state) return Error{Errc::invalid, "job: unknown state '" + text_at(json, "state") + "'"};
    auto plan = model::plan_from_json(at(json, "plan"));
    if (!plan) return std::move(plan).error().within("job: plan");
    Job job;
    job.id = text_at(json, "id");
    job.sequence = whole(json, "sequence");
    job.user = text_at(json, "user");
    job.uid = static_cast<std::uint32_t>(whole(json, "uid"));
    job.name = text_at(json, "name");
    job.attempt = static_cast<int>(whole(json, "attempt"));
    job.state = *state;
    job.cancelled = bool_at(json, "cancelled");
    job.reason = text_at(json, "reason");
    job.submitted = number_at(json, "submitted").value_or(0);
    job.entered = number_at(json, "entered").value_or(0);
    job.user_comment = text_at(json, "user_comment");
    for (const auto &[key, value] : at(json, "options").items())
        if (value.is_string()) job.options[key] = value.get<std::string>();
    job.directory = text_at(json, "directory");
    job.plan = std::move(*plan);
    job.word = text_at(json, "word");
    for (const auto &item : at(json, "parts")) {
        auto part = part_from(item);
        if (!part) return std::move(part).error();
        job.parts.push_back(std::move(*part));
    }
    for (const auto &item : at(json, "history")) {
        const auto then = state_named(text_at(item, "state"));
        if (!then)
            return Error{Errc::invalid, "job: history: unknown state '" + text_at(item, "state") + "'"};
        job.history.push_back({number_at(item, "at").value_or(0), *then, text_at(item, "why")});
    }
    return job;
}

} // namespace spider::coalloc
