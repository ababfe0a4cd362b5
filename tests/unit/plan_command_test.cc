// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflow plan` and `spiderflow explain` on files: good ones, and every kind of bad one.
#include "unit/command_fixture.h"

namespace spider::cli {
namespace {

// Sites a and b with two GPUs each; `changes` are made to the text.
std::string two_sites(const std::vector<std::pair<std::string, std::string>> &changes = {}) {
    std::string text = R"({"sites":[{"name":"a","gpu":"h100","nodes":1,"gpus_per_node":2},)"
                       R"({"name":"b","gpu":"h100","nodes":1,"gpus_per_node":2}],)"
                       R"("bw_gbps":[[null,10],[10,null]],"rtt_ms":[[null,5],[5,null]]})";
    for (const auto &[from, to] : changes)
        text.replace(text.find(from), from.size(), to);
    return text;
}

struct BadPlan : CommandTest {
    // One line on standard error that has `words`, nothing on standard output.
    void refused(int status, const std::string &words, Words options) {
        options.insert(options.begin(), "plan");
        const auto ended = run(options);
        EXPECT_EQ(ended.status, status) << words;
        EXPECT_EQ(ended.out, "") << words;
        EXPECT_NE(ended.err.find(words), std::string::npos) << words << "\n" << ended.err;
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_LT(ended.err.size(), 1000u);
    }
    Words job(const std::string &federation, Words more = {}) {
        Words words{"--model", model, "--gbs", "16", "--federation", slurm.file("f.json", federation)};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
};

TEST_F(BadPlan, OfJobsNamesTheKey) {
    const auto f = slurm.file("f.json", two_sites());
    refused(misused, "no gbs; give gbs=N", {"--model", model, "--federation", f});
    refused(misused, "no model; give model=PATH", {"--gbs", "8", "--federation", f});
    for (const auto *key : {"gbs", "mbs", "seq", "tp", "pp", "dp", "iterations"})
        for (const auto *value : {"0", "-3", "many", "1e99"})
            refused(misused, std::string(key) + "=" + value + ": expected a whole number of at least 1",
                    {spec, "--federation", f, std::string("--") + key, value});
    refused(misused, "gbs=16 is not a multiple of mbs=3", job(two_sites(), {"--mbs", "3"}));
    refused(misused, "more than 1000000 micro-batches",
            {"--model", model, "--gbs", "1000000000", "--federation", f});
    refused(misused, "unknown site 'x'", job(two_sites(), {"--sites", "a,x"}));
    refused(misused, "home: unknown site 'x'", job(two_sites(), {"--home", "x"}));
    refused(misused, "pp=9 is more than the model's 8 layers", job(two_sites(), {"--pp", "9"}));
    refused(misused, "depth=deep: expected stages, fitted", job(two_sites(), {"--depth", "deep"}));
    refused(misused, "sends=never: expected async or blocking", job(two_sites(), {"--sends", "never"}));
}

TEST_F(BadPlan, OfModelsNamesTheFile) {
    const auto f = slurm.file("f.json", two_sites());
    const auto with = [&](const std::string &text) {
        return Words{"--gbs", "16", "--federation", f, "--model", slurm.file("m.json", text)};
    };
    refused(misused, "architecture 'XForCausalLM' is not known",
            with(R"({"architectures":["XForCausalLM"]})"));
    refused(misused, "num_hidden_layers: expected a whole number",
            with(R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":0})"));
    refused(misused, "m.json:1:65: nested deeper than 64 levels", with(std::string(100'000, '[')));
    refused(misused, "m.json: larger than", with("{\"a\":\"" + std::string(100'000'000, 'x') + "\"}"));
    refused(misused, "m.json:1:1: ",
            with("\x7f"
                 "ELF"));
    refused(misused, "No such file", {"--gbs", "16", "--federation", f, "--model", f + ".none"});
}

TEST_F(BadPlan, OfFederationsNamesFileAndPlace) {
    refused(failed, "No such file", {"--model", model, "--gbs", "16", "--federation", model + ".none"});
    refused(misused, "not a regular file",
            {"--model", model, "--gbs", "16", "--federation", slurm.folder.string()});
    refused(misused, "f.json:1:65: nested deeper", job(std::string(100'000, '[')));
    refused(misused, "f.json:1:1: unexpected end", job(""));
    refused(misused, "sites: missing", job("{}"));
    const std::string first = "[[null,10]";
    refused(misused, "f.json:1:", job(two_sites({{first, "[[null,NaN]"}})));
    refused(misused, "link a -> b: bandwidth must be a number above 0",
            job(two_sites({{first, "[[null,-3]"}})));
    refused(misused, "link a -> b: bandwidth must be a number above 0",
            job(two_sites({{first, "[[null,0]"}})));
    refused(misused, "bw_gbps: expected 2 rows", job(two_sites({{",[10,null]", ""}})));
    refused(misused, "no site has the name 'x'",
            job(two_sites(
                {{"\"bw_gbps\"", R"("shared":[{"name":"w","gbps":1,"pairs":[["a","x"]]}],"bw_gbps")"}})));
    refused(misused, "sites[0] a: nodes: expected a whole number",
            job(two_sites({{"\"nodes\":1", "\"nodes\":-1"}})));
    refused(misused, "gpu: unknown type 'x'", job(two_sites({{"h100", "x"}})));
    refused(misused, "two sites have the name a", job(two_sites({{"\"b\"", "\"a\""}})));
}

TEST_F(BadPlan, ThatFitsNowhereSaysWhatIsMissing) {
    const auto cut = two_sites({{"[[null,10],[10,null]]", "[[null,null],[null,null]]"}});
    refused(failed, "no plan: no link in both directions between a and b", job(cut, {"--sites", "a,b"}));
    EXPECT_EQ(
        run({"plan", "--model", model, "--gbs", "16", "--federation", slurm.file("f.json", cut)}).status,
        success)
        << "each site alone can do it";
    refused(failed, "no plan: no site has a free GPU", job(R"({"sites":[]})"));
    const auto huge =
        slurm.file("huge.json", R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":80,)"
                                R"("hidden_size":16384,"intermediate_size":65536,)"
                                R"("num_attention_heads":128,"vocab_size":128256})");
    refused(failed, "the smallest stage needs ",
            {"--model", huge, "--gbs", "16", "--federation", slurm.file("f.json", two_sites())});
}

TEST_F(BadPlan, OptionsOutOfRangeAreRefusedAtOnce) {
    for (const auto *ms : {"0", "-1", "nan", "inf", "1e300", "soon"})
        refused(misused,
                "--budget-ms: '" + std::string(ms) + "': expected milliseconds between 1 and 3600000",
                job(two_sites(), {"--budget-ms", ms}));
    for (const auto *seed : {"-1", "1.5", "x"})
        refused(misused, "--seed: '" + std::string(seed) + "': expected a whole number of at least 0",
                job(two_sites(), {"--seed", seed}));
}

TEST_F(CommandTest, AFederationOfAThousandSitesIsRead) {
    constexpr int sites = 1024;
    std::string row, text = R"({"sites":[)";
    for (int i = 0; i < sites; ++i) {
        text += (i > 0 ? "," : "") + std::string(R"({"name":"s)") + std::to_string(i) +
                R"(","gpu":"h100","nodes":1,"gpus_per_node":2})";
        row += (i > 0 ? "," : "") + std::string("9.123456789012345");
    }
    std::string matrix;
    for (int i = 0; i < sites; ++i)
        matrix += (i > 0 ? ",[" : "[") + row + "]";
    text += R"(],"bw_gbps":[)" + matrix + R"(],"rtt_ms":[)" + matrix + "]}";
    ASSERT_GT(text.size(), 30'000'000u);
    const auto shown = run({"plan", "--model", model, "--gbs", "16", "--federation",
                            slurm.file("f.json", text), "--budget-ms", "1", "--sites", "s7"});
    EXPECT_EQ(shown.status, success) << shown.err;
}

TEST_F(CommandTest, ExplainTakesAPlanFromAFileAndFromStandardInput) {
    const auto f = slurm.file("f.json", two_sites());
    const Words plan{"plan", "--model", model, "--gbs", "16", "--federation", f, "--sites", "a,b", "--json"};
    const auto json = run(plan).out;
    const auto file = slurm.file("plan.json", json);
    const auto from_file = run({"explain", file});
    EXPECT_EQ(from_file.status, success) << from_file.err;
    EXPECT_NE(from_file.out.find(": the same."), std::string::npos) << from_file.out;
    EXPECT_EQ(run({"explain", "-"}, json).out, from_file.out);
    const auto planned =
        run({"explain", "--model", model, "--gbs", "16", "--federation", f, "--sites", "a,b"});
    EXPECT_EQ(planned.out, from_file.out);
    EXPECT_EQ(run({"explain", file, "--gbs", "3"}).status, misused);
}

TEST_F(CommandTest, ExplainFindsOutAnAlteredPlan) {
    auto json = run({"plan", "--model", model, "--gbs", "16", "--federation",
                     slurm.file("f.json", two_sites()), "--json"})
                    .out;
    const auto at = json.find("\"seconds\": ") + 11;
    json.insert(at, "1"); // of the iteration: ten times or more
    const auto ended = run({"explain", slurm.file("plan.json", json)});
    EXPECT_EQ(ended.status, failed);
    EXPECT_NE(ended.out.find("NOT the same"), std::string::npos) << ended.out;
    EXPECT_EQ(ended.err, "spiderflow: the plan's own numbers give another time than it says\n");
    const auto torn = run({"explain", slurm.file("plan.json", R"({"outcome":"planned"})")});
    EXPECT_EQ(torn.status, misused);
    EXPECT_EQ(std::count(torn.err.begin(), torn.err.end(), '\n'), 1) << torn.err;
}

TEST_F(CommandTest, PlanDrawsAPicture) {
    const auto f = slurm.file("f.json", two_sites());
    const auto svg = (slurm.folder / "p.svg").string();
    const Words plan{"plan", "--model", model, "--gbs", "16", "--federation", f, "--sites", "a,b"};
    auto drawn = plan;
    drawn.insert(drawn.end(), {"--svg", svg});
    EXPECT_EQ(run(drawn).status, success);
    const auto text = read("p.svg");
    EXPECT_TRUE(text.starts_with("<?xml ")) << text.substr(0, 80);
    EXPECT_TRUE(text.ends_with("</svg>\n"));
    drawn.back() = "/nowhere/p.svg";
    const auto refused = run(drawn);
    EXPECT_EQ(refused.status, failed);
    EXPECT_EQ(refused.err, "spiderflow: /nowhere/p.svg: No such file or directory\n");
}

} // namespace
} // namespace spider::cli
