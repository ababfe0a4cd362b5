// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/planning.h"

#include "cli/common.h"
#include "launch/environment.h"
#include "model/fields.h"
#include "model/spec.h"
#include "plan/planner.h"
#include "plan/svg.h"
#include "util/text.h"
#include "wire/client.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace spider::cli {
namespace {

constexpr std::size_t federation_limit = 64u << 20; // 1,024 sites with all digits are 18 MB
constexpr double longest_budget_ms = 3'600'000;

int refuse(const Error &error) { return error.code == Errc::invalid ? misuse(error.what) : failure(error); }

// read_spec() speaks to users of sbatch; here the keys are options.
Error for_options(Error error) {
    constexpr std::string_view option = "--spiderflow: ";
    if (error.what.starts_with(option)) error.what.erase(0, option.size());
    return error;
}

Result<JobSpec> read_job(const PlanRequest &request) {
    const auto text = compose(request.spec, request.keys, spec_defaults());
    if (!text) return text.error();
    auto spec = model::read_spec(text->text, text->defaults, working_directory());
    if (!spec) return for_options(std::move(spec).error());
    return spec;
}

int plan_offline(const PlanRequest &request, JobSpec spec, Planned &planned) {
    spec.home = request.home;
    auto federation = read_federation_file(request.federation);
    if (!federation) return refuse(federation.error());
    auto made = plan::make_plan(*federation, spec, {request.budget_ms / 1000, request.seed}, request.planner);
    if (!made) return refuse(made.error());
    if (made->outcome == Outcome::planned)
        if (const auto can = launch::can_launch(*made); !can) return refuse(can.error());
    planned.plan = std::move(*made);
    planned.federation = std::move(*federation);
    return success;
}

int plan_with_broker(const std::string &socket, const JobSpec &spec, Planned &planned) {
    wire::Client client(socket);
    auto reply = client.plan({spec, {}, working_directory(), true});
    if (!reply) return failure(reply.error());
    if (!reply->id.empty())
        if (const auto dropped = client.drop(reply->id); !dropped && dropped.error().code != Errc::not_found)
            failure(dropped.error());
    planned.plan = std::move(reply->plan);
    planned.line = std::move(reply->line);
    return success;
}

bool is_planner(const std::string &name) {
    for (const auto &known : plan::planners())
        if (known.name == name) return true;
    return name.empty();
}

std::string planner_names() {
    std::string names;
    for (const auto &known : plan::planners())
        names += (names.empty() ? "" : ", ") + std::string(known.name);
    return names;
}

std::string trouble_with_budget(const std::string &text) {
    const auto ms = util::to_double(text);
    return ms && *ms >= 1 && *ms <= longest_budget_ms
               ? ""
               : "'" + text + "': expected milliseconds between 1 and " + util::number(longest_budget_ms, 7);
}

std::string trouble_with_seed(const std::string &text) {
    return util::to_int(text).value_or(-1) >= 0 ? ""
                                                : "'" + text + "': expected a whole number of at least 0";
}

} // namespace

Result<Federation> read_federation_file(const std::string &path) {
    const auto json = model::read_json_file(path, federation_limit);
    if (!json) return json.error();
    auto federation = federation::read_federation(*json);
    if (!federation) return std::move(federation).error().within(path);
    return federation;
}

void add_plan_options(CLI::App &command, PlanRequest &request) {
    command.add_option("--federation", request.federation, "plan offline for the sites of this JSON file")
        ->option_text("FILE");
    const auto tune = [&request](const std::string &) {
        request.tuned = true;
        return std::string();
    };
    command.add_option("--planner", request.planner, planner_names())->option_text("NAME")->check(tune);
    command.add_option("--budget-ms", request.budget_ms, "time for the search")
        ->option_text("N")
        ->check(tune)
        ->check(trouble_with_budget);
    command.add_option("--seed", request.seed, "same seed, same plan")
        ->option_text("N")
        ->check(tune)
        ->check(trouble_with_seed);
    command.add_option("--home", request.home, "the site that must take part")
        ->option_text("SITE")
        ->check(tune);
    command.add_option("--svg", request.svg, "draw the plan into this file")->option_text("FILE");
    add_spec_options(command, request.keys);
}

int make(const std::string &socket, const PlanRequest &request, Planned &planned) {
    if (!is_planner(request.planner))
        return misuse("--planner: no planner '" + request.planner + "'; there are: " + planner_names());
    if (request.federation.empty() && request.tuned)
        return misuse(
            "--planner, --budget-ms, --seed and --home need --federation FILE; the broker uses its own");
    const auto spec = read_job(request);
    if (!spec) return refuse(spec.error());
    return request.federation.empty() ? plan_with_broker(socket, *spec, planned)
                                      : plan_offline(request, *spec, planned);
}

Result<Plan> read_plan_file(const std::string &path) {
    const std::string name = path == "-" ? "standard input" : path;
    Result<Json> json = Json();
    if (path == "-") {
        const auto text = read_all(STDIN_FILENO, longest_plan);
        if (!text) return text.error();
        json = model::parse_json(*text);
        if (!json) return std::move(json).error().within(name);
    } else {
        json = model::read_json_file(path, longest_plan);
        if (!json) return std::move(json).error();
    }
    auto plan = model::plan_from_json(*json);
    if (!plan) return std::move(plan).error().within(name);
    return plan;
}

int judge(const Plan &plan) {
    return plan.outcome == Outcome::infeasible ? failure({Errc::refused, "no plan: " + plan.reason})
                                               : success;
}

int write_picture(const Plan &plan, const Federation *federation, const std::string &path) {
    const auto course = plan::course_of(plan);
    if (!course) return failure(course.error().within(path));
    const auto text = plan::picture(plan, *course, federation);
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "we"), std::fclose);
    if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
        std::fflush(file.get()) != 0)
        return failure({Errc::system, path + ": " + std::strerror(errno)});
    return success;
}

void print_lines(std::string_view text) {
    for (const auto &line : util::split(text.substr(0, text.find_last_not_of('\n') + 1), '\n'))
        print_line(printable(line));
}

} // namespace spider::cli
