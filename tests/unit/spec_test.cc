// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/spec.h"

#include "model/json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace spider::model {
namespace {

constexpr auto keys =
    "keys: model, seq, gbs, mbs, iterations, trainer, launcher, layers, stage, single_gpu_view, "
    "sites, precision, sync, on_failure, check_links, check_factor, attempts, tp, pp, dp, recompute, "
    "objective, depth, "
    "sends";

class Spec : public testing::Test {
  protected:
    void SetUp() override {
        directory = testing::TempDir() + "spec_test." + std::to_string(getpid());
        std::filesystem::create_directories(directory + "/model");
        write("gpt2.json", R"({"architectures":["GPT2LMHeadModel"],"n_layer":12,"n_embd":768,"n_head":12,)"
                           R"("n_positions":1024,"vocab_size":50257})");
        write("model/config.json",
              R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":4,"hidden_size":64,)"
              R"("num_attention_heads":4,"intermediate_size":128,"vocab_size":100,)"
              R"("max_position_embeddings":131072})");
    }
    void TearDown() override { std::filesystem::remove_all(directory); }
    void write(const std::string &name, const std::string &text) {
        std::ofstream(directory + "/" + name) << text;
    }
    Result<JobSpec> read(std::string_view text, std::string_view defaults = "") {
        return read_spec(text, defaults, directory);
    }
    std::string trouble(std::string_view text, std::string_view defaults = "") {
        const auto spec = read(text, defaults);
        if (spec) return "no trouble";
        auto what = spec.error().what;
        EXPECT_EQ(what.find('\n'), std::string::npos);
        for (auto at = what.find(directory); at != std::string::npos; at = what.find(directory))
            what.replace(at, directory.size(), "DIR");
        return what;
    }
    std::string directory;
};

TEST_F(Spec, AllKeysAreUnderstood) {
    const auto spec = read("model=gpt2.json,seq=512,gbs=64,mbs=2,iterations=20,trainer=torchrun,sites=s1+s2,"
                           "precision=fp32,sync=every,on_failure=cancel,tp=1,pp=4,dp=2,recompute=full,"
                           "objective=throughput,depth=12,sends=blocking");
    ASSERT_TRUE(spec) << spec.error().what;
    EXPECT_EQ(spec->model.layers, 12);
    EXPECT_EQ(spec->sequence, 512);
    EXPECT_EQ(spec->global_batch, 64);
    EXPECT_EQ(spec->micro_batch, 2);
    EXPECT_EQ(spec->iterations, 20);
    EXPECT_EQ(spec->trainer, Trainer::torchrun);
    EXPECT_EQ(spec->sites, (std::vector<std::string>{"s1", "s2"}));
    EXPECT_EQ(spec->precision, Precision::fp32);
    EXPECT_EQ(spec->tp, 1);
    EXPECT_EQ(spec->pp, 4);
    EXPECT_EQ(spec->dp, 2);
    EXPECT_EQ(spec->recompute, Recompute::full);
    EXPECT_EQ(spec->objective, Objective::throughput);
    EXPECT_EQ(spec->depth, 12);
    EXPECT_EQ(spec->sends, Sends::blocking);
}

TEST_F(Spec, DefaultsComeFromTheModelAndTheVariable) {
    EXPECT_EQ(read("model=gpt2.json,gbs=8")->sequence, 1024);
    EXPECT_EQ(read("model=model,gbs=8")->sequence, 4096)
        << "a directory with a config.json; long context is cut";
    EXPECT_EQ(read(" model = model , gbs = 8 ")->micro_batch, 1);
    const auto spec = read("gbs=16", "model=gpt2.json,gbs=8,mbs=4");
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->global_batch, 16);
    EXPECT_EQ(spec->micro_batch, 4);
    for (const auto *bare : {"", "(null)", " "})
        EXPECT_TRUE(read(bare, "model=gpt2.json,gbs=8")) << bare;
    EXPECT_TRUE(read("model=gpt2.json,gbs=8", "off"));
    EXPECT_EQ(read("model=gpt2.json,gbs=8")->depth, depth_of_trainer);
    EXPECT_EQ(read("model=gpt2.json,gbs=8")->sends, std::nullopt);
    EXPECT_EQ(read("model=gpt2.json,gbs=8,depth=stages")->depth, depth_stages);
    EXPECT_EQ(read("model=gpt2.json,gbs=8,depth=fitted")->depth, depth_fitted);
}

TEST_F(Spec, FilesHaveTheSameKeys) {
    write("job.toml", "model = \"gpt2.json\"\ngbs = 32\nsites = [\"s1\", \"s2\"]\nrecompute = \"full\"\n");
    write("job.json", R"({"model": "gpt2.json", "gbs": 32, "sites": ["s1", "s2"], "recompute": "full"})");
    for (const auto *file : {"job.toml", "job.json"}) {
        const auto spec = read(file);
        ASSERT_TRUE(spec) << spec.error().what;
        EXPECT_EQ(spec->global_batch, 32);
        EXPECT_EQ(spec->sites, (std::vector<std::string>{"s1", "s2"}));
        EXPECT_EQ(spec->recompute, Recompute::full);
    }
    EXPECT_EQ(read("gbs=64", "job.toml")->global_batch, 64);
}

TEST_F(Spec, SaysHowTheTrainerIsStartedAndWhatTravels) {
    auto spec = read("model=gpt2.json,gbs=8,trainer=nanotron,launcher=torchrun,layers=free,stage=a.py+conf/x,"
                     "single_gpu_view=yes")
                    .value();
    EXPECT_EQ(spec.trainer, Trainer::nanotron);
    EXPECT_EQ(spec.launcher, Launcher::torchrun);
    EXPECT_EQ(spec.even_layers, false);
    EXPECT_EQ(spec.travelling, (std::vector<std::string>{"a.py", "conf/x"}));
    EXPECT_TRUE(spec.single_gpu_view);
    EXPECT_EQ(job_spec_from_json(to_json(spec)).value(), spec);
    spec = read("model=gpt2.json,gbs=8").value();
    EXPECT_EQ(spec.even_layers, std::nullopt);
    EXPECT_EQ(job_spec_from_json(to_json(spec)).value(), spec);
}

TEST_F(Spec, WhatTravelsStaysBelowTheWorkingDirectory) {
    for (const auto *bad : {"/etc/passwd", "../x", "a/../../x", "a+", "+a", "a++b"})
        EXPECT_EQ(trouble("stage=" + std::string(bad)),
                  "--spiderflow: stage=" + std::string(bad) +
                      ": expected paths below the working directory with '+' "
                      "between them");
    EXPECT_EQ(trouble("launcher=mpirun"), "--spiderflow: launcher=mpirun: expected srun or torchrun");
    EXPECT_EQ(trouble("layers=odd"), "--spiderflow: layers=odd: expected even or free");
    EXPECT_EQ(trouble("single_gpu_view=1"), "--spiderflow: single_gpu_view=1: expected yes or no");
}

TEST_F(Spec, MistakesInTheTextAreOneLineWithTheCure) {
    EXPECT_EQ(trouble("modl=x"),
              std::string("--spiderflow: unknown key 'modl' (did you mean 'model'?); ") + keys);
    EXPECT_EQ(trouble("zzzzzz=x"), std::string("--spiderflow: unknown key 'zzzzzz'; ") + keys);
    EXPECT_EQ(trouble("", "gsb=1"),
              std::string("SLURM_SPIDERFLOW: unknown key 'gsb' (did you mean 'gbs'?); ") + keys);
    EXPECT_EQ(trouble("model"),
              "--spiderflow: 'model' is not key=value, nor the path of a .toml or .json file");
    EXPECT_EQ(trouble("a=1,,b=2"),
              "--spiderflow: '' is not key=value, nor the path of a .toml or .json file");
    EXPECT_EQ(trouble("gbs="), "--spiderflow: gbs has no value");
    EXPECT_EQ(trouble("gbs=1,gbs=2"), "--spiderflow: gbs is given twice");
    for (const auto *bad : {"0", "-1", "x", "1.5", "1e3", "99999999999", "NaN"})
        EXPECT_EQ(trouble("gbs=" + std::string(bad)),
                  "--spiderflow: gbs=" + std::string(bad) + ": expected a whole number of at least 1");
    EXPECT_EQ(trouble("tp=0"), "--spiderflow: tp=0: expected a whole number of at least 1");
    EXPECT_EQ(
        trouble("trainer=magic"),
        "--spiderflow: trainer=magic: expected plain, megatron, torchtitan, deepspeed, nanotron or torchrun");
    for (const auto *bad : {"0", "-2", "deep", "1.5"})
        EXPECT_EQ(trouble("depth=" + std::string(bad)),
                  "--spiderflow: depth=" + std::string(bad) +
                      ": expected stages, fitted or a whole number of at least 1");
    EXPECT_EQ(trouble("sends=later"), "--spiderflow: sends=later: expected async or blocking");
    EXPECT_EQ(trouble("sites=a++b"), "--spiderflow: sites=a++b: expected names with '+' between them");
    EXPECT_EQ(trouble("sites=a+a"), "--spiderflow: sites=a+a: a is named twice");
    EXPECT_EQ(trouble("check_links=maybe"), "--spiderflow: check_links=maybe: expected no, warn or replan");
    EXPECT_EQ(trouble("check_factor=1"),
              "--spiderflow: check_factor=1: expected a number above 1, at most 100");
    EXPECT_EQ(trouble("check_links=replan,on_failure=retry,model=gpt2.json,gbs=8"),
              "--spiderflow: check_links=replan needs on_failure=replan, which is then the default");
    EXPECT_EQ(trouble("on_failure=again"),
              "--spiderflow: on_failure=again: expected cancel, retry or replan");
    EXPECT_EQ(trouble("attempts=0"), "--spiderflow: attempts=0: expected a whole number of at least 1");
    EXPECT_EQ(trouble("sync=diloco:8"), "--spiderflow: sync=diloco:8: not in this version; only sync=every");
    EXPECT_EQ(trouble("sync=never"), "--spiderflow: sync=never: expected every or diloco:H");
    EXPECT_EQ(trouble("off"), "--spiderflow: 'off' turns the option off; there is nothing to plan");
    EXPECT_EQ(trouble(""), "--spiderflow: no model; give model=PATH of a Hugging Face config.json");
    EXPECT_EQ(trouble("model=gpt2.json"), "--spiderflow: no gbs; give gbs=N, the sequences of one iteration");
    EXPECT_EQ(trouble("model=gpt2.json,gbs=9,mbs=2"), "--spiderflow: gbs=9 is not a multiple of mbs=2");
    EXPECT_EQ(trouble("model=gpt2.json,gbs=8,seq=2048"),
              "--spiderflow: seq=2048: the model has 1024 positions");
}

TEST_F(Spec, MistakesInTheModelFileNameItsPlace) {
    write("bad.json", "{\n \"a\": }\n");
    write("mamba.json", R"({"architectures":["MambaForCausalLM"]})");
    write("deep.json", std::string(100'000, '['));
    EXPECT_EQ(trouble("model=none.json,gbs=1").find("--spiderflow: model=none.json: DIR/none.json: "), 0u)
        << trouble("model=none.json,gbs=1");
    EXPECT_EQ(trouble("model=bad.json,gbs=1")
                  .find("--spiderflow: model=bad.json: DIR/bad.json:2:7: unexpected '}'"),
              0u)
        << trouble("model=bad.json,gbs=1");
    EXPECT_EQ(trouble("model=mamba.json,gbs=1")
                  .find("--spiderflow: model=mamba.json: DIR/mamba.json: architecture 'MambaForCausalLM' is "
                        "not known; known: GPT2LMHeadModel, LlamaForCausalLM, "),
              0u);
    EXPECT_EQ(trouble("model=deep.json,gbs=1"),
              "--spiderflow: model=deep.json: DIR/deep.json:1:65: nested deeper than 64 levels");
    write("large.json", "");
    std::filesystem::resize_file(directory + "/large.json", 100u << 20);
    EXPECT_EQ(trouble("model=large.json,gbs=1"),
              "--spiderflow: model=large.json: DIR/large.json: larger than 4194304 bytes");
}

TEST_F(Spec, AModelMayBeGivenByItsCosts) {
    write("costs.json", R"({"explicit":{"layers":3,"forward_seconds":[1,2,3],"backward_seconds":4,)"
                        R"("boundary_bytes":5,"gradient_bytes":6}})");
    const auto spec = read("model=costs.json,gbs=8");
    ASSERT_TRUE(spec) << spec.error().what;
    EXPECT_EQ(spec->model.layers, 3);
    EXPECT_EQ(spec->sequence, 1) << "tokens/s count sequences";
    EXPECT_EQ(spec->model.costs->times.front().forward, (PerLayer{1, 2, 3}));
    EXPECT_EQ(spec->model.costs->activation, PerLayer{0});
    EXPECT_EQ(read("model=costs.json,gbs=8,seq=512")->sequence, 512);
    std::string many = "[0.5";
    for (int i = 1; i < 10'000; ++i)
        many += ",0.123456789012345678";
    write("many.json", R"({"explicit":{"layers":10000,"boundary_bytes":0,"forward_seconds":)" + many +
                           R"(],"backward_seconds":)" + many + R"(],"gradient_bytes":)" + many +
                           R"(],"state_bytes":)" + many + R"(],"activation_bytes":)" + many + "]}}");
    EXPECT_TRUE(read("model=many.json,gbs=8"));
}

TEST_F(Spec, MistakesInCostsNameTheirKey) {
    const auto what = [&](const std::string &change) {
        auto json = *parse_json(R"({"layers":3,"forward_seconds":[1,2,3],"backward_seconds":4,)"
                                R"("boundary_bytes":5,"gradient_bytes":6})");
        json.update(*parse_json(change));
        write("x.json", print_json({{"explicit", json}}));
        auto said = trouble("model=x.json,gbs=8");
        const std::string begin = "--spiderflow: model=x.json: DIR/x.json: ";
        return said.starts_with(begin) ? said.substr(begin.size()) : said;
    };
    EXPECT_EQ(what("{}"), "no trouble");
    EXPECT_EQ(what(R"({"layers":null})"),
              "explicit: layers: missing; expected a whole number between 1 and 10000");
    EXPECT_EQ(what(R"({"layers":4})"), "explicit: forward_seconds: expected a number between 0 and "
                                       "1000000000, or a list of 4; the list has 3");
    EXPECT_EQ(what(R"({"backward_seconds":null})"), "explicit: backward_seconds: missing; expected a number "
                                                    "between 0 and 1000000000, or a list of 3");
    for (const auto *bad : {"-1", "1e300", "\"1\"", "true", "[1,-2,3]", "[1,2,[3]]", "{}"})
        EXPECT_EQ(what(R"({"forward_seconds":)" + std::string(bad) + "}"),
                  "explicit: forward_seconds: expected a number between 0 and 1000000000, or a list of 3")
            << bad;
    for (const auto *none : {"0", "[1,0,2]"})
        EXPECT_EQ(what(R"({"forward_seconds":)" + std::string(none) + "}"),
                  "explicit: forward_seconds: a layer that takes no time");
    EXPECT_EQ(what(R"({"boundary_bytes":[1,2,3]})"),
              "explicit: boundary_bytes: expected a number between 0 and 1e+18");
    EXPECT_EQ(what(R"({"gpus":{"v100":{"forward_seconds":1}}})"),
              "explicit: gpus: v100: backward_seconds: missing; expected a number between 0 and 1000000000, "
              "or a list of 3");
    write("nan.json", R"({"explicit":{"layers":3,"forward_seconds":NaN}})");
    EXPECT_EQ(trouble("model=nan.json,gbs=8").find("--spiderflow: model=nan.json: DIR/nan.json:1:"), 0u);
}

TEST_F(Spec, AProfileHasItsSizesFromAConfigAndItsTimesFromAMeasurement) {
    write("p.json", R"({"profile":{"model":"model","sequence":2048,"tp":2,"measurements":[)"
                    R"({"gpu":"A100","layer_forward_seconds":1,"layer_backward_seconds":[2,3,4,5]},)"
                    R"({"gpu":"h100","tp":4,"layer_forward_seconds":6,"layer_backward_seconds":7}]}})");
    const auto spec = read("model=p.json,gbs=8");
    ASSERT_TRUE(spec) << spec.error().what;
    EXPECT_EQ(spec->sequence, 2048);
    EXPECT_EQ(spec->model.hidden, 64);
    ASSERT_EQ(spec->model.measurements.size(), 2u);
    EXPECT_EQ(spec->model.measurements[0].layers, (LayerSeconds{"a100", {1}, {2, 3, 4, 5}}));
    EXPECT_EQ(spec->model.measurements[0].tp, 2);
    EXPECT_EQ(spec->model.measurements[1].tp, 4);
    const auto what = [&](const std::string &profile) {
        write("q.json", "{\"profile\":" + profile + "}");
        return trouble("model=q.json,gbs=8")
            .substr(std::string("--spiderflow: model=q.json: DIR/q.json: ").size());
    };
    EXPECT_EQ(what("{}"), "profile: model: missing; expected a Hugging Face config.json or the path of one");
    EXPECT_EQ(what(R"({"model":"none.json"})").find("profile: DIR/none.json: "), 0u);
    EXPECT_EQ(what(R"({"model":"model","sequence":1})"), "profile: gpu: missing; expected a text");
    EXPECT_EQ(what(R"({"model":"model","gpu":"tpu"})").find("profile: gpu: unknown type 'tpu'; known: "), 0u);
    EXPECT_EQ(what(R"({"model":"model","measurements":[]})"), "profile: measurements: expected 1 to 100");
    EXPECT_EQ(what(R"({"model":"model","measurements":[7]})"),
              "profile: measurements: expected a list of objects");
    EXPECT_EQ(what(R"({"model":"model","gpu":"a100","measurements":[{}]})"),
              "profile: measurements[0]: layer_forward_seconds: missing; expected a number between 0 and "
              "1000000000, or a list of 4");
}

TEST_F(Spec, MistakesInAFileNameItsLine) {
    write("a.toml", "model = \"gpt2.json\"\ngsb = 3\n");
    EXPECT_EQ(trouble("a.toml"),
              std::string("DIR/a.toml:2:1: unknown key 'gsb' (did you mean 'gbs'?); ") + keys);
    write("b.toml", "gbs = \n");
    EXPECT_EQ(trouble("b.toml").find("DIR/b.toml:1:"), 0u) << trouble("b.toml");
    write("c.toml", "gbs = 1.5\n");
    EXPECT_EQ(trouble("c.toml"), "DIR/c.toml:1:1: gbs: expected a text, a whole number or a list of texts");
    write("d.toml", "gbs = -4\n");
    EXPECT_EQ(trouble("d.toml"), "DIR/d.toml:1:1: gbs=-4: expected a whole number of at least 1");
    write("e.toml", "x = " + std::string(10'000, '[') + "\n");
    EXPECT_EQ(trouble("e.toml").find("DIR/e.toml:1:"), 0u) << trouble("e.toml");
    write("f.json", "{\"gbs\": {}}");
    EXPECT_EQ(trouble("f.json"), "DIR/f.json: gbs: expected a text, a whole number or a list of texts");
    write("g.json", "[1]");
    EXPECT_EQ(trouble("g.json"), "DIR/g.json: expected an object");
    EXPECT_EQ(trouble("none.toml").find("DIR/none.toml"), 0u) << trouble("none.toml");
}

TEST_F(Spec, TheEarlySyntaxCheckOpensNoFile) {
    for (const auto *good : {"", "(null)", "off", "model=/nowhere,gbs=8", "/nowhere.toml", "x.json"})
        EXPECT_TRUE(check_spec_syntax(good)) << good;
    for (const auto *bad : {"gbs", "gbs=x", "modl=x", "nowhere.yaml"})
        EXPECT_FALSE(check_spec_syntax(bad)) << bad;
}

} // namespace
} // namespace spider::model
