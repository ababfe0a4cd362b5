// SPDX-License-Identifier: GPL-3.0-or-later
// The one door to JSON: parsing, tolerant reading and the JSON form of every model value. Nothing here
// throws.
#pragma once

#include "model/job_spec.h"
#include "model/plan.h"
#include "model/site.h"
#include "util/result.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace spider::model {

using Json = nlohmann::ordered_json;

// Errors begin with "LINE:COLUMN: ". Deeper than `max_depth` levels is refused (a stack is finite).
Result<Json> parse_json(std::string_view text, int max_depth = 64);
std::string print_json(const Json &json, int indent = -1); // invalid UTF-8 is replaced, never an exception

// Tolerant readers: absent, null, {} or another type give the fallback.
const Json &at(const Json &object, std::string_view key); // null when absent
std::string text_at(const Json &object, std::string_view key, std::string_view fallback = "");
bool bool_at(const Json &object, std::string_view key, bool fallback = false);
std::vector<std::string> texts_at(const Json &object,
                                  std::string_view key); // array of strings, or a comma string

// Slurm's numbers in all their encodings: int | {"set","infinite","number"} | "Infinity" | "12" | null.
// nothing = not set; infinity = no limit. Infinite is tested before set (slurmrestd 24.11 and later).
std::optional<double> number_of(const Json &value);
std::optional<double> number_at(const Json &object, std::string_view key);

Json to_json(const Plan &plan); // what `spiderflow plan --json` prints
Result<Plan> plan_from_json(const Json &json);
Json to_json(const JobSpec &spec);
Result<JobSpec> job_spec_from_json(const Json &json);
Json to_json(const Site &site);
Json to_json(const ModelSpec &model);
Result<ModelSpec> model_spec_from_json(const Json &json); // our own form, as to_json prints it

// A Hugging Face config.json. Unknown architecture, missing or senseless number: Errc::invalid.
Result<ModelSpec> read_hugging_face_config(const Json &json);

// Names of enumerators, one table for printing and parsing.
std::string_view name(Trainer value);
std::string_view name(Launcher value);
std::string_view name(Precision value);
std::string_view name(OnFailure value);
std::string_view name(LinkChecking value);
std::string_view name(Recompute value);
std::string_view name(Objective value);
std::string_view name(Sends value);
std::string_view name(SiteState value); // "ACTIVE", "DRAIN", "INACTIVE"
std::string_view name(Outcome value);
std::optional<Trainer> trainer_named(std::string_view text);
std::optional<Launcher> launcher_named(std::string_view text);
std::optional<Precision> precision_named(std::string_view text);
std::optional<OnFailure> on_failure_named(std::string_view text);
std::optional<LinkChecking> link_checking_named(std::string_view text);
std::optional<Recompute> recompute_named(std::string_view text);
std::optional<Objective> objective_named(std::string_view text);
std::optional<Sends> sends_named(std::string_view text);
std::optional<SiteState> site_state_named(std::string_view text);
std::optional<Outcome> outcome_named(std::string_view text);

} // namespace spider::model
