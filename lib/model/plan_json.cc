// SPDX-License-Identifier: GPL-3.0-or-later
// The JSON form of a plan: what `spiderflow plan --json` prints and what the journal keeps.
#include "model/fields.h"

namespace spider::model {

namespace {

Json iteration_json(const Iteration &iteration) {
    Json terms = Json::array();
    for (const auto &term : iteration.terms)
        terms.push_back({{"name", term.name}, {"seconds", term.seconds}});
    const double gap =
        iteration.seconds > 0 ? (iteration.seconds - iteration.bound) / iteration.seconds : 0.0;
    return {{"seconds", iteration.seconds},
            {"tokens_per_second", iteration.tokens_per_second},
            {"bound_seconds", iteration.bound},
            {"gap", gap},
            {"terms", std::move(terms)},
            {"bottleneck",
             {{"kind", iteration.bottleneck.kind},
              {"from", iteration.bottleneck.from},
              {"to", iteration.bottleneck.to}}}};
}

// Where each member of a stage runs, from the parts; with its seconds if it is faster than the slowest.
Json slot_json(const Plan &plan, const Slot &slot, const std::string &site) {
    Json json{{"dp", slot.dp}, {"site", site}};
    for (const auto &member : plan.stages[static_cast<std::size_t>(slot.stage)].faster) {
        if (member.dp != slot.dp) continue;
        json["forward_seconds"] = member.forward;
        json["backward_seconds"] = member.backward;
    }
    return json;
}

// Of every stage, from the parts.
std::vector<Json> slots_json(const Plan &plan) {
    std::vector<Json> slots(plan.stages.size(), Json::array());
    for (const auto &part : plan.parts)
        for (const auto &node : part.nodes)
            for (const auto &slot : node)
                if (slot.stage >= 0 && static_cast<std::size_t>(slot.stage) < slots.size())
                    slots[static_cast<std::size_t>(slot.stage)].push_back(slot_json(plan, slot, part.site));
    return slots;
}

Json stages_json(const Plan &plan) {
    Json stages = Json::array();
    auto slots = slots_json(plan);
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto &stage = plan.stages[i];
        stages.push_back({{"stage", i},
                          {"first_layer", stage.first_layer},
                          {"last_layer", stage.last_layer},
                          {"depth", stage.depth},
                          {"slots", std::move(slots[i])},
                          {"forward_seconds", stage.forward},
                          {"backward_seconds", stage.backward},
                          {"memory_bytes", stage.memory},
                          {"gradient_seconds", stage.gradient},
                          {"ring", stage.ring}});
    }
    return stages;
}

Json boundaries_json(const Plan &plan) {
    Json boundaries = Json::array();
    for (const auto &passage : plan.passages)
        boundaries.push_back({{"stage", passage.stage},
                              {"dp", passage.dp},
                              {"latency_seconds", passage.latency},
                              {"occupancy_seconds", passage.occupancy},
                              {"back_latency_seconds", passage.back_latency},
                              {"back_occupancy_seconds", passage.back_occupancy}});
    return boundaries;
}

Json links_json(const Plan &plan) {
    Json links = Json::array();
    for (const auto &link : plan.links)
        links.push_back({{"from", link.from},
                         {"to", link.to},
                         {"gbps", link.gbps},
                         {"rtt_ms", link.rtt_ms},
                         {"source", link.source},
                         {"measured_at", link.measured_at},
                         {"usual_gbps", link.usual_gbps},
                         {"used", link.used}});
    return links;
}

Json alternatives_json(const Plan &plan) {
    Json alternatives = Json::array();
    for (const auto &other : plan.alternatives)
        alternatives.push_back({{"name", other.name},
                                {"seconds", other.seconds},
                                {"start_seconds", other.start},
                                {"sites", other.sites}});
    return alternatives;
}

Json part_json(const Plan &plan, const Part &part) {
    Json slots = Json::array();
    Json per_node = Json::array();
    for (const auto &node : part.nodes) {
        per_node.push_back(node.size());
        for (const auto &slot : node)
            slots.push_back(Json::array({slot.stage, slot.dp}));
    }
    return {{"site", part.site},          {"gpu", part.gpu},
            {"nodes", part.nodes.size()}, {"gpus", slots.size() * static_cast<std::size_t>(plan.tp)},
            {"slots", std::move(slots)},  {"slots_per_node", std::move(per_node)}};
}

Iteration read_iteration(const Json &json, std::optional<Error> &trouble) {
    Fields fields(json, "plan: iteration", trouble);
    Iteration iteration;
    iteration.seconds = fields.real("seconds", 0);
    iteration.tokens_per_second = fields.real("tokens_per_second", 0);
    iteration.bound = fields.real("bound_seconds", 0);
    for (const auto &item : fields.list("terms")) {
        Fields term(item, "plan: iteration: terms", trouble);
        iteration.terms.push_back({term.text("name"), term.real("seconds", 0)});
    }
    Fields bottleneck(fields.object("bottleneck"), "plan: iteration: bottleneck", trouble);
    iteration.bottleneck = {bottleneck.text("kind"), bottleneck.text_or("from", ""),
                            bottleneck.text_or("to", "")};
    return iteration;
}

Stage read_stage(const Json &json, std::size_t index, std::optional<Error> &trouble) {
    Fields fields(json, "plan: stages[" + std::to_string(index) + "]", trouble);
    Stage stage;
    if (fields.integer("stage", 0) != static_cast<int>(index))
        fields.fail("stage", "stages are not in order");
    stage.first_layer = fields.integer("first_layer", 0);
    stage.last_layer = fields.integer("last_layer", 0);
    stage.depth = fields.integer("depth", 1);
    stage.forward = fields.real("forward_seconds", 0);
    stage.backward = fields.real("backward_seconds", 0);
    stage.memory = fields.real("memory_bytes", 0);
    stage.gradient = fields.real_or("gradient_seconds", 0, 0);
    stage.ring = fields.texts_or_none("ring");
    for (const auto &item : fields.list("slots")) {
        if (at(item, "forward_seconds").is_null()) continue;
        Fields member(item, "plan: stages: slots", trouble);
        stage.faster.push_back(
            {member.integer("dp", 0), member.real("forward_seconds", 0), member.real("backward_seconds", 0)});
    }
    return stage;
}

Passage read_passage(const Json &json, std::size_t index, std::optional<Error> &trouble) {
    Fields fields(json, "plan: boundaries[" + std::to_string(index) + "]", trouble);
    Passage passage;
    passage.stage = fields.integer("stage", 0);
    passage.dp = fields.integer("dp", 0);
    passage.latency = fields.real("latency_seconds", 0);
    passage.occupancy = fields.real("occupancy_seconds", 0);
    passage.back_latency = fields.real("back_latency_seconds", 0);
    passage.back_occupancy = fields.real("back_occupancy_seconds", 0);
    return passage;
}

LinkUse read_link(const Json &json, std::optional<Error> &trouble) {
    Fields fields(json, "plan: links", trouble);
    return {.from = fields.text("from"),
            .to = fields.text("to"),
            .gbps = fields.real("gbps", 0),
            .rtt_ms = fields.real("rtt_ms", 0),
            .source = fields.text_or("source", ""),
            .measured_at = fields.real_or("measured_at", 0, 0),
            .usual_gbps = fields.real_or("usual_gbps", 0, 0),
            .used = fields.flag_or("used", true)};
}

Alternative read_alternative(const Json &json, std::optional<Error> &trouble) {
    Fields fields(json, "plan: alternatives", trouble);
    Alternative other;
    other.name = fields.text("name");
    other.seconds = fields.real("seconds", 0);
    other.start = fields.real_or("start_seconds", 0, 0);
    other.sites = fields.texts_or_none("sites");
    return other;
}

std::optional<Slot> read_slot(const Json &json) {
    if (!json.is_array() || json.size() != 2) return std::nullopt;
    for (const auto &number : json)
        if (!number.is_number_integer() || number.get<double>() < 0 || number.get<double>() > 1'000'000)
            return std::nullopt;
    return Slot{json[0].get<int>(), json[1].get<int>()};
}

Part read_part(const Json &json, std::size_t index, std::optional<Error> &trouble) {
    Fields fields(json, "plan: sites[" + std::to_string(index) + "]", trouble);
    Part part;
    part.site = fields.text("site");
    part.gpu = fields.text_or("gpu", "");
    const auto &slots = fields.list("slots");
    std::size_t next = 0;
    for (const auto &count : fields.list("slots_per_node")) {
        const auto left = static_cast<double>(slots.size() - next);
        if (!count.is_number_integer() || count.get<double>() < 0 || count.get<double>() > left) {
            fields.fail("slots_per_node", "expected counts that sum to the number of slots");
            return part;
        }
        auto &node = part.nodes.emplace_back();
        for (auto n = count.get<std::size_t>(); n > 0; --n, ++next) {
            const auto slot = read_slot(slots[next]);
            if (!slot) fields.fail("slots", "expected pairs [stage, dp]");
            node.push_back(slot.value_or(Slot{}));
        }
    }
    if (next != slots.size())
        fields.fail("slots_per_node", "expected counts that sum to the number of slots");
    return part;
}

Search read_search(const Json &json, std::optional<Error> &trouble) {
    Fields fields(json, "plan: search", trouble);
    Search search;
    search.planner = fields.text("planner");
    search.seconds = fields.real_or("seconds", 0, 0);
    const auto &evaluations = at(json, "evaluations");
    if (evaluations.is_number_integer()) search.evaluations = evaluations.get<std::int64_t>();
    const auto &seed = at(json, "seed");
    if (seed.is_number_integer()) search.seed = seed.get<std::uint64_t>();
    return search;
}

} // namespace

Json to_json(const Plan &plan) {
    Json parts = Json::array();
    for (const auto &part : plan.parts)
        parts.push_back(part_json(plan, part));
    return {{"outcome", name(plan.outcome)},
            {"reason", plan.reason},
            {"trainer", name(plan.trainer)},
            {"launcher", name(plan.launcher)},
            {"single_gpu_view", plan.single_gpu_view},
            {"parallel",
             {{"tp", plan.tp},
              {"pp", plan.pp},
              {"dp", plan.dp},
              {"microbatch", plan.micro_batch},
              {"microbatches", plan.micro_batches},
              {"sequence", plan.sequence},
              {"recompute", name(plan.recompute)},
              {"sends", name(plan.sends)}}},
            {"family", plan.family},
            {"start_seconds", plan.start},
            {"iteration", iteration_json(plan.iteration)},
            {"home_alone_seconds", plan.home_alone},
            {"stages", stages_json(plan)},
            {"boundaries", boundaries_json(plan)},
            {"links", links_json(plan)},
            {"sites", std::move(parts)},
            {"alternatives", alternatives_json(plan)},
            {"search",
             {{"planner", plan.search.planner},
              {"seconds", plan.search.seconds},
              {"evaluations", plan.search.evaluations},
              {"seed", plan.search.seed}}}};
}

Result<Plan> plan_from_json(const Json &json) {
    std::optional<Error> trouble;
    Fields fields(json, "plan", trouble);
    Plan plan;
    if (!fields.has("outcome")) fields.fail("outcome", "missing; expected planned or infeasible");
    plan.outcome = fields.choice_or("outcome", Outcome::infeasible, outcome_named);
    plan.reason = fields.text_or("reason", "");
    Fields parallel(fields.object("parallel"), "plan: parallel", trouble);
    plan.tp = parallel.integer("tp", 1);
    plan.pp = parallel.integer("pp", 1);
    plan.dp = parallel.integer("dp", 1);
    plan.micro_batch = parallel.integer("microbatch", 1);
    plan.micro_batches = parallel.integer("microbatches", 1);
    plan.sequence = parallel.integer_or("sequence", 0, 0);
    plan.recompute = parallel.choice_or("recompute", Recompute::none, recompute_named);
    plan.sends = parallel.choice_or("sends", Sends::async, sends_named);
    plan.trainer = fields.choice_or("trainer", Trainer::plain, trainer_named);
    plan.launcher = fields.choice_or("launcher", Launcher::srun, launcher_named);
    plan.single_gpu_view = fields.flag_or("single_gpu_view", false);
    plan.family = fields.text_or("family", "");
    plan.start = fields.real_or("start_seconds", 0, 0);
    plan.iteration = read_iteration(fields.object("iteration"), trouble);
    plan.home_alone = fields.real_or("home_alone_seconds", 0, 0);
    for (const auto &stage : fields.list("stages"))
        plan.stages.push_back(read_stage(stage, plan.stages.size(), trouble));
    if (fields.has("boundaries"))
        for (const auto &item : fields.list("boundaries"))
            plan.passages.push_back(read_passage(item, plan.passages.size(), trouble));
    if (fields.has("links"))
        for (const auto &item : fields.list("links"))
            plan.links.push_back(read_link(item, trouble));
    if (fields.has("alternatives"))
        for (const auto &item : fields.list("alternatives"))
            plan.alternatives.push_back(read_alternative(item, trouble));
    for (const auto &part : fields.list("sites"))
        plan.parts.push_back(read_part(part, plan.parts.size(), trouble));
    plan.search = read_search(fields.object("search"), trouble);
    if (trouble) return std::move(*trouble);
    return plan;
}

} // namespace spider::model
