// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/fields.h"
#include "model/gpu_table.h"
#include "model/model_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace spider::model {
namespace {

std::string data(const std::string &name) { return SF_TEST_DATA "/models/" + name; }

TEST(ParseJson, ErrorsNameLineAndColumn) {
    EXPECT_EQ(parse_json("{\n  \"a\": ]\n}").error().what.find("2:8: unexpected ']'"), 0u)
        << parse_json("{\n  \"a\": ]\n}").error().what;
    EXPECT_EQ(parse_json("").error().what.find("1:1: "), 0u);
    EXPECT_EQ(parse_json("{\"a\":1} x").error().what.find("1:9: "), 0u);
    for (const auto *bad :
         {"nan", "{\"a\":NaN}", "1e999", "{'a':1}", "[1,]", "\"\xff\"", "\"\\ud800\"", "{", "[[["}) {
        const auto json = parse_json(bad);
        ASSERT_FALSE(json) << bad;
        EXPECT_EQ(json.error().what.find('\n'), std::string::npos);
    }
}

TEST(ParseJson, DepthAndWidthHaveLimits) {
    EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']')));
    EXPECT_EQ(parse_json(std::string(65, '[') + std::string(65, ']')).error().what,
              "1:65: nested deeper than 64 levels");
    EXPECT_FALSE(parse_json(std::string(10'000'000, '[')));
    EXPECT_TRUE(parse_json("[\"" + std::string(1000, '[') + "\"]")) << "brackets in a text do not nest";
    std::string wide = "{\"k\":0";
    for (int i = 0; i < 20'000; ++i)
        wide += ",\"k" + std::to_string(i) + "\":0";
    EXPECT_NE(parse_json(wide + "}").error().what.find("an object with more than 10000 keys"),
              std::string::npos);
}

TEST(ParseJson, MutatedInputIsAnErrorOrAValueButNeverACrash) {
    const std::string good =
        R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":16,)"
        R"("num_hidden_layers":2,"num_attention_heads":2,"vocab_size":99,"x":[1,2.5,null]})";
    std::mt19937 chance(1);
    for (int round = 0; round < 5000; ++round) {
        auto text = good;
        for (int i = 0; i < 3; ++i)
            text[chance() % text.size()] = static_cast<char>(chance());
        const auto json = parse_json(text);
        if (!json) continue;
        print_json(*json);
        const auto spec = read_hugging_face_config(*json);
        EXPECT_TRUE(!spec || spec->layers > 0);
        EXPECT_FALSE(plan_from_json(*json));
        EXPECT_FALSE(job_spec_from_json(*json));
    }
}

TEST(PrintJson, InvalidTextIsReplacedAndNotThrown) {
    EXPECT_EQ(print_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
    EXPECT_EQ(print_json(Json(std::nan(""))), "null");
}

TEST(Numbers, SlurmsEncodingsAreAllRead) {
    const auto of = [](std::string_view text) { return number_of(*parse_json(text)); };
    EXPECT_EQ(of("12"), 12.0);
    EXPECT_EQ(of("\"12\""), 12.0);
    EXPECT_EQ(of(R"({"set":true,"infinite":false,"number":7})"), 7.0);
    EXPECT_EQ(of(R"({"set":false,"infinite":false,"number":7})"), std::nullopt);
    EXPECT_EQ(of(R"({"set":false,"infinite":true,"number":0})"), std::numeric_limits<double>::infinity());
    EXPECT_EQ(of(R"({"set":true,"infinite":true,"number":0})"), std::numeric_limits<double>::infinity());
    EXPECT_EQ(of("\"Infinity\""), std::numeric_limits<double>::infinity());
    EXPECT_EQ(of("\"UNLIMITED\""), std::numeric_limits<double>::infinity());
    for (const auto *none :
         {"null", "{}", "[]", "true", "\"x\"", R"({"set":true})", R"({"number":{"number":1}})"})
        EXPECT_EQ(of(none), std::nullopt) << none;
}

TEST(Readers, AbsentNullOrAnotherTypeGiveTheFallback) {
    const auto json = *parse_json(R"({"t":"x","n":null,"l":["a",3,"b"],"c":"p,q","b":true})");
    EXPECT_EQ(text_at(json, "t"), "x");
    EXPECT_EQ(text_at(json, "n", "none"), "none");
    EXPECT_EQ(text_at(json, "l", "none"), "none");
    EXPECT_EQ(text_at(*parse_json("[]"), "t", "none"), "none");
    EXPECT_TRUE(bool_at(json, "b"));
    EXPECT_FALSE(bool_at(json, "t"));
    EXPECT_EQ(texts_at(json, "l"), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(texts_at(json, "c"), (std::vector<std::string>{"p", "q"}));
    EXPECT_TRUE(texts_at(json, "zzz").empty());
}

TEST(GpuTable, SlurmsNamesAreFoundByTheLongestPrefix) {
    const auto memory = [](std::string_view name) {
        return gpu_type_named(name).value_or(GpuType{}).memory / 1e9;
    };
    EXPECT_EQ(memory("h100"), 80);
    EXPECT_EQ(memory("h100_80gb_hbm3"), 80);
    EXPECT_EQ(memory("NVIDIA-H100-NVL"), 94);
    EXPECT_EQ(memory("a100"), 80);
    EXPECT_EQ(memory("a100_40g"), 40);
    EXPECT_EQ(memory("A100-40"), 40);
    EXPECT_EQ(memory("nvidia_a100-sxm4-40gb"), 40);
    EXPECT_EQ(memory("nvidia_a100-sxm4-80gb"), 80);
    EXPECT_EQ(memory("V100-16"), 16);
    EXPECT_EQ(memory("v100_32g"), 32);
    EXPECT_EQ(memory("A40-48"), 48);
    EXPECT_EQ(memory("gb200"), 186);
    for (const auto *name :
         {"h200", "b200", "gb300", "a6000", "l40s", "mi250x", "mi300x", "gh200", "t4", "rtx_4090"})
        EXPECT_TRUE(gpu_type_named(name)) << name;
    EXPECT_EQ(gpu_type_named("l40s")->peak_flops, 362e12);
    EXPECT_EQ(gpu_type_named("l4")->peak_flops, 121e12);
    EXPECT_EQ(gpu_type_named("V100-16")->name, "v100-16");
    for (const auto *name : {"", "h10", "gpu", "a1000", "tpu"})
        EXPECT_FALSE(gpu_type_named(name)) << name;
}

TEST(Names, EveryEnumeratorReadsBack) {
    for (const auto value : {Trainer::plain, Trainer::megatron, Trainer::torchtitan, Trainer::deepspeed})
        EXPECT_EQ(trainer_named(name(value)), value);
    for (const auto value : {Recompute::none, Recompute::selective, Recompute::full})
        EXPECT_EQ(recompute_named(name(value)), value);
    for (const auto value : {SiteState::active, SiteState::drain, SiteState::inactive})
        EXPECT_EQ(site_state_named(name(value)), value);
    EXPECT_FALSE(trainer_named("Plain"));
}

class Chance {
  public:
    explicit Chance(unsigned seed) : engine_(seed) {}
    int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine_); }
    double real() { return std::exp(std::normal_distribution<double>(0, 10)(engine_)); }
    bool flip() { return number(0, 1) == 1; }
    std::string text() {
        std::string text;
        for (int i = number(0, 6); i > 0; --i)
            text += std::string(texts[static_cast<std::size_t>(number(0, 7))]);
        return text;
    }

  private:
    static constexpr std::array<std::string_view, 8> texts{"a", "\"", "\n", "é", "|", "\\", "\t", " "};
    std::mt19937 engine_;
};

Plan random_plan(Chance &chance) {
    Plan plan;
    plan.outcome = chance.flip() ? Outcome::planned : Outcome::infeasible;
    plan.reason = chance.text();
    plan.tp = chance.number(1, 8), plan.pp = chance.number(1, 100), plan.dp = chance.number(1, 1000);
    plan.micro_batch = chance.number(1, 64), plan.micro_batches = chance.number(1, 100'000);
    plan.recompute = chance.flip() ? Recompute::full : Recompute::selective;
    plan.iteration = {
        chance.real(), chance.real(), chance.real(), {}, {chance.text(), chance.text(), chance.text()}};
    for (int i = chance.number(0, 4); i > 0; --i)
        plan.iteration.terms.push_back({chance.text(), chance.real()});
    plan.home_alone = chance.flip() ? 0 : chance.real();
    for (int i = chance.number(0, 5); i > 0; --i)
        plan.stages.push_back({chance.number(0, 99), chance.number(0, 99), chance.number(1, 50),
                               chance.real(), chance.real(), chance.real()});
    for (int i = chance.number(0, 3); i > 0; --i) {
        Part part{chance.text(), chance.text(), {}};
        for (int n = chance.number(0, 3); n > 0; --n) {
            auto &node = part.nodes.emplace_back();
            for (int s = chance.number(0, 3); s > 0; --s)
                node.push_back({chance.number(0, 9), chance.number(0, 9)});
        }
        plan.parts.push_back(part);
    }
    plan.search = {chance.text(), chance.real(), chance.number(0, 1 << 30), 0xffffffffffffffffu};
    return plan;
}

TEST(PlanJson, WhatIsPrintedReadsBackTheSame) {
    Chance chance(7);
    for (int round = 0; round < 500; ++round) {
        const auto plan = random_plan(chance);
        const auto text = print_json(to_json(plan), round % 2 ? 2 : -1);
        const auto back = plan_from_json(*parse_json(text));
        ASSERT_TRUE(back) << back.error().what << '\n' << text;
        ASSERT_EQ(*back, plan) << text;
    }
}

TEST(PlanJson, HasTheKeysThatProgramsReadAndInTheirOrder) {
    Plan plan;
    plan.tp = 2;
    plan.stages = {{.last_layer = 3}};
    plan.parts = {{"s1", "h100", {{{0, 0}, {0, 1}}}}};
    const auto json = to_json(plan);
    std::vector<std::string> keys;
    for (const auto &[key, value] : json.items())
        keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"outcome", "reason", "trainer", "launcher", "single_gpu_view",
                                              "parallel", "family", "start_seconds", "iteration",
                                              "home_alone_seconds", "stages", "boundaries", "links", "sites",
                                              "alternatives", "search"}));
    EXPECT_EQ(json["sites"][0]["gpus"], 4);
    EXPECT_EQ(json["sites"][0]["nodes"], 1);
    EXPECT_EQ(print_json(json["sites"][0]["slots"]), "[[0,0],[0,1]]");
    EXPECT_EQ(print_json(json["stages"][0]["slots"]), R"([{"dp":0,"site":"s1"},{"dp":1,"site":"s1"}])");
}

TEST(PlanJson, EveryMistakeIsOneLineWithItsPlace) {
    Plan plan;
    plan.stages = {{.last_layer = 3}};
    plan.parts = {{"s1", "h100", {{{0, 0}}}}};
    const auto good = to_json(plan);
    const auto what = [](const Json &json) {
        const auto back = plan_from_json(json);
        return back ? "no trouble" : back.error().what;
    };
    EXPECT_EQ(what(good), "no trouble");
    auto bad = good;
    bad["outcome"] = "maybe";
    EXPECT_EQ(what(bad), "plan: outcome: unknown value 'maybe'");
    bad = good, bad["parallel"]["tp"] = 0;
    EXPECT_EQ(what(bad), "plan: parallel: tp: expected a whole number of at least 1");
    bad = good, bad["stages"][0]["depth"] = "x";
    EXPECT_EQ(what(bad), "plan: stages[0]: depth: expected a whole number of at least 1");
    bad = good, bad["sites"][0]["slots"][0] = Json::array({1});
    EXPECT_EQ(what(bad), "plan: sites[0]: slots: expected pairs [stage, dp]");
    bad = good, bad["sites"][0]["slots_per_node"] = Json::array({7});
    EXPECT_EQ(what(bad), "plan: sites[0]: slots_per_node: expected counts that sum to the number of slots");
    bad = good, bad["sites"][0]["slots_per_node"] = Json::array({0});
    EXPECT_EQ(what(bad), "plan: sites[0]: slots_per_node: expected counts that sum to the number of slots");
    bad = good, bad["sites"][0]["slots_per_node"] = Json::array({-1});
    EXPECT_EQ(what(bad), "plan: sites[0]: slots_per_node: expected counts that sum to the number of slots");
    bad = good, bad.erase("stages");
    EXPECT_EQ(what(bad), "plan: stages: missing; expected a list");
    EXPECT_EQ(what(Json()), "plan: expected an object");
}

PerLayer random_values(Chance &chance, int layers) {
    PerLayer values(chance.flip() ? 1 : static_cast<std::size_t>(layers));
    for (double &value : values)
        value = std::min(chance.real() + 1e-9, 1e8);
    return values;
}

ModelSpec random_explicit(Chance &chance) {
    ModelSpec model;
    const int layers = model.layers = chance.number(1, 9);
    const auto values = [&] { return random_values(chance, layers); };
    model.costs = {chance.text(),
                   chance.number(1, 99),
                   chance.number(0, 8),
                   {},
                   chance.number(0, 9) * 1.5,
                   values(),
                   values(),
                   values()};
    for (const auto *gpu : {"", "v100", "h100"})
        model.costs->times.push_back({gpu, values(), values()});
    return model;
}

ModelSpec random_model(Chance &chance) {
    if (chance.flip()) return random_explicit(chance);
    const auto size = [&] { return chance.number(1, 99); };
    ModelSpec model{chance.text(), 9,      size(), size(),        size(),       size(),
                    size(),        size(), size(), chance.flip(), chance.flip()};
    model.norms = size(), model.query_key_norm = chance.flip(), model.query_key_value_bias = chance.flip();
    model.output_bias = chance.flip(), model.mlp_bias = chance.flip();
    if (chance.flip()) model.latent = {size(), size(), size(), size()};
    if (chance.flip()) model.experts = {99, size(), size(), size(), chance.flip(), chance.flip(), {0, 3}};
    if (chance.flip()) model.window = {size(), {1, 8}};
    for (int i = chance.number(0, 2); i > 0; --i)
        model.measurements.push_back({{"a100", random_values(chance, 9), random_values(chance, 9)},
                                      chance.flip() ? 0 : 0.25,
                                      0.5,
                                      size(),
                                      size(),
                                      size(),
                                      Recompute::full});
    return model;
}

TEST(JobJson, WhatIsPrintedReadsBackTheSame) {
    Chance chance(11);
    for (int round = 0; round < 200; ++round) {
        JobSpec spec;
        spec.model_name = chance.text();
        spec.model = random_model(chance);
        spec.sequence = chance.number(0, 9999), spec.global_batch = chance.number(0, 9999);
        spec.micro_batch = chance.number(1, 9), spec.iterations = chance.number(0, 9999);
        spec.trainer = Trainer::megatron, spec.precision = Precision::fp32, spec.recompute = Recompute::full;
        spec.objective = Objective::throughput, spec.on_failure = OnFailure::replan, spec.attempts = 5,
        spec.sync = chance.text();
        for (int i = chance.number(0, 3); i > 0; --i)
            spec.sites.push_back(chance.text());
        if (chance.flip()) spec.tp = chance.number(1, 9);
        if (chance.flip()) spec.pp = chance.number(1, 9);
        if (chance.flip()) spec.dp = chance.number(1, 9);
        spec.limits = {chance.number(0, 9), chance.number(0, 9), chance.number(0, 9), chance.number(0, 9)};
        spec.home = chance.text();
        spec.depth = chance.number(-2, 3);
        if (chance.flip()) spec.sends = chance.flip() ? Sends::async : Sends::blocking;
        if (chance.flip()) spec.even_layers = chance.flip();
        spec.launcher = chance.flip() ? Launcher::srun : Launcher::torchrun;
        spec.travelling = {chance.text(), chance.text()};
        spec.single_gpu_view = chance.flip();
        const auto back = job_spec_from_json(*parse_json(print_json(to_json(spec))));
        ASSERT_TRUE(back) << back.error().what;
        ASSERT_EQ(*back, spec) << print_json(to_json(spec));
    }
}

TEST(JobJson, AHostileModelIsOneLineAndNeverACrash) {
    JobSpec spec;
    spec.model = *read_hugging_face_config(*read_json_file(data("deepseek-v2-lite.json")));
    const auto good = to_json(spec);
    const auto what = [](const Json &json) {
        const auto back = job_spec_from_json(json);
        return back ? "no trouble" : back.error().what;
    };
    EXPECT_EQ(what(good), "no trouble");
    auto bad = good;
    bad["model"]["layers"] = 2'000'000'000;
    EXPECT_EQ(what(bad), "job: model: layers: expected a whole number between 1 and 10000");
    bad = good, bad["model"]["experts"]["per_token"] = 65;
    EXPECT_EQ(what(bad), "job: model: experts: per_token: expected a whole number between 1 and 64");
    bad = good, bad["model"]["experts"]["dense_layers"] = Json::array({-1});
    EXPECT_EQ(what(bad), "job: model: experts: dense_layers: expected a list of whole numbers below 27");
    bad = good, bad["model"]["measurements"] = Json::array({7});
    EXPECT_EQ(what(bad), "job: model: measurements: expected an object");
    bad = good, bad["model"] = {{"explicit", {{"layers", 3}, {"forward_seconds", Json::array({1, 2})}}}};
    EXPECT_EQ(what(bad), "job: model: explicit: forward_seconds: expected a number between 0 and "
                         "1000000000, or a list of 3; the list has 2");
    bad = good, bad["depth"] = "deep";
    EXPECT_EQ(what(bad), "job: depth: expected a whole number of at least 1");
    bad = good, bad["sends"] = "later";
    EXPECT_EQ(what(bad), "job: sends: unknown value 'later'");
}

} // namespace
} // namespace spider::model
