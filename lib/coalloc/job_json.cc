// SPDX-License-Identifier: GPL-3.0-or-later
#include "coalloc/decide.h"

#include <array>

namespace spider::coalloc {
namespace {

constexpr std::array<std::string_view, 16> part_state_names{
    "unsubmitted", "submitting", "held",      "pending",    "running",     "completed",
    "failed",      "unprepared", "cancelled", "timed_out",  "node_failed", "preempted",
    "requeued",    "never",      "gone",      "left_behind"};
static_assert(part_state_names.size() == static_cast<std::size_t>(PartState::left_behind) + 1);
constexpr std::array<std::string_view, 5> verb_names{"release", "hold", "give_back", "word", "cancel"};
static_assert(verb_names.size() == static_cast<std::size_t>(Verb::cancel) + 1);

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
                {"gpus", part.gpus},
                {"state", name(part.state)},
                {"lingers", part.lingers},
                {"slurm_state", part.slurm_state},
                {"waits_for", part.waits_for},
                {"exit_status", part.exit_status},
                {"hosts", part.hosts},
                {"directory", part.directory},
                {"output", part.output},
                {"error", part.error},
                {"restarts", part.restarts},
                {"released", part.released},
                {"giving_back", part.giving_back},
                {"word_given", part.word_given},
                {"released_at", part.released_at},
                {"back_at", part.back_at},
                {"idle_since", part.idle_since},
                {"expected_start", part.expected_start},
                {"clock_ahead", part.clock_ahead},
                {"unseen_since", part.unseen_since}};
}

Result<PartRecord> part_from(const Json &json) {
    const auto state = part_state_named(text_at(json, "state"));
    if (!state) return Error{Errc::invalid, "part: unknown state '" + text_at(json, "state") + "'"};
    PartRecord part;
    part.site = text_at(json, "site");
    part.job = whole(json, "job");
    part.user = text_at(json, "user");
    part.gpus = static_cast<int>(whole(json, "gpus"));
    part.state = *state;
    part.lingers = bool_at(json, "lingers");
    part.slurm_state = text_at(json, "slurm_state");
    part.waits_for = text_at(json, "waits_for");
    part.exit_status = static_cast<int>(whole(json, "exit_status"));
    part.hosts = text_at(json, "hosts");
    part.directory = text_at(json, "directory");
    part.output = text_at(json, "output");
    part.error = text_at(json, "error");
    part.restarts = static_cast<int>(whole(json, "restarts"));
    part.released = bool_at(json, "released");
    part.giving_back = bool_at(json, "giving_back");
    part.word_given = bool_at(json, "word_given");
    part.released_at = number_at(json, "released_at").value_or(0);
    part.back_at = number_at(json, "back_at").value_or(0);
    part.idle_since = number_at(json, "idle_since").value_or(0);
    part.expected_start = number_at(json, "expected_start").value_or(0);
    part.clock_ahead = number_at(json, "clock_ahead").value_or(0);
    part.unseen_since = number_at(json, "unseen_since").value_or(0);
    return part;
}

Json history_json(const Job &job) {
    Json history = Json::array();
    for (const auto &line : job.history)
        history.push_back(Json{{"at", line.at}, {"state", name(line.state)}, {"why", line.why}});
    return history;
}

Result<void> read_lists(const Json &json, Job &job) {
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
    return {};
}

} // namespace

std::string_view name(PartState state) { return part_state_names[static_cast<std::size_t>(state)]; }
std::string_view name(Verb verb) { return verb_names[static_cast<std::size_t>(verb)]; }

Json to_json(const Job &job) {
    Json options = Json::object(), parts = Json::array();
    for (const auto &[key, value] : job.options)
        options[key] = value;
    for (const auto &part : job.parts)
        parts.push_back(part_json(part));
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
                {"spec", job.spec.global_batch > 0 ? model::to_json(job.spec) : Json()},
                {"home_first", job.home_first},
                {"user_hold", job.user_hold},
                {"plan", model::to_json(job.plan)},
                {"left_out", job.left_out},
                {"again", job.again},
                {"word", job.word},
                {"turns", job.turns},
                {"not_before", job.not_before},
                {"idle_gpu_seconds", job.idle_gpu_seconds},
                {"parts", parts},
                {"history", history_json(job)}};
}

Result<Job> job_from_json(const Json &json) {
    const auto state = state_named(text_at(json, "state"));
    if (!state) return Error{Errc::invalid, "job: unknown state '" + text_at(json, "state") + "'"};
    auto plan = model::plan_from_json(at(json, "plan"));
    if (!plan) return std::move(plan).error().within("job: plan");
    Job job;
    if (at(json, "spec").is_object()) { // not in the journal's first form
        auto spec = model::job_spec_from_json(at(json, "spec"));
        if (!spec) return std::move(spec).error().within("job: spec");
        job.spec = std::move(*spec);
    }
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
    job.home_first = bool_at(json, "home_first");
    job.user_hold = bool_at(json, "user_hold");
    job.plan = std::move(*plan);
    job.left_out = model::texts_at(json, "left_out");
    job.again = bool_at(json, "again");
    job.word = text_at(json, "word");
    job.turns = static_cast<int>(whole(json, "turns"));
    job.not_before = number_at(json, "not_before").value_or(0);
    job.idle_gpu_seconds = number_at(json, "idle_gpu_seconds").value_or(0);
    if (auto read = read_lists(json, job); !read) return std::move(read).error();
    return job;
}

} // namespace spider::coalloc
