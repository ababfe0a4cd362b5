// SPDX-License-Identifier: GPL-3.0-or-later
// The sub-commands as a user or the plugin calls them, with a fake broker and fake Slurm commands.
#pragma once

#include "cli/commands.h"
#include "cli/common.h"
#include "unit/fake_slurm.h"
#include "unit/http_server.h"
#include "wire/messages.h"

#include <fcntl.h>

namespace spider::cli {

using test::answer;
using test::Server;
using Words = std::vector<std::string>;

struct Ended {
    int status = 0;
    std::string out;
    std::string err;
};

struct CommandTest : testing::Test {
    test::FakeSlurm slurm;
    std::string model =
        slurm.file("config.json", R"({"architectures":["GPT2LMHeadModel"],"n_layer":8,"n_embd":64,)"
                                  R"("n_head":4,"n_positions":128,"vocab_size":256})");
    std::string spec = "model=" + model + ",gbs=16";
    wire::PlanReply reply;

    CommandTest() {
        ::unsetenv("SLURM_SPIDERFLOW");
        reply.id = "s1-17";
        reply.line = "2 stages over s1, s2";
        reply.plan.outcome = Outcome::planned;
        reply.plan.pp = 2;
        reply.plan.micro_batches = 16;
        reply.plan.stages = {{0, 3, 2, 0.1, 0.2, 1e9}, {4, 7, 1, 0.1, 0.2, 1e9}};
        reply.plan.parts = {{"s1", "h100", {{{0, 0}}}}, {"s2", "h100", {{{1, 0}}}}};
        reply.options = {{"nodes", "1"}, {"comment", "spiderflow=s1-17/1"}, {"hold", ""}};
        reply.environment = {{"SLURM_SPIDERFLOW_SITE", "s1"}};
        slurm.tool("squeue", "[ -e $here/submitted ] && echo '7|spiderflow=s1-17/1'");
        slurm.tool("scontrol", "printf '#!/bin/sh\\necho hello\\n'");
        slurm.tool("scancel", "");
        slurm.tool("sbatch", ": >$here/submitted; cat >$here/stdin; "
                             "echo \"$SLURM_SPIDERFLOW_SUBMIT $SLURM_SPIDERFLOW_SITE\" >$here/env; "
                             "echo Submitted batch job 7");
    }
    ~CommandTest() override { ::unsetenv("SLURM_SPIDERFLOW_SUBMIT"); }

    // Standard input is the file `input`.
    Ended run(Words words, const std::string &input = "") {
        const int old = ::dup(STDIN_FILENO);
        const int given = ::open(slurm.file("input", input).c_str(), O_RDONLY | O_CLOEXEC);
        ::dup2(given, STDIN_FILENO);
        CLI::App app("spiderflow");
        Context context;
        context.socket = slurm.socket;
        for (const auto add : {add_plan, add_explain, add_launch, add_profile, add_submit, add_status,
                               add_cancel, add_sites, add_hook})
            add(app, context);
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        std::reverse(words.begin(), words.end());
        Ended outcome;
        try {
            app.parse(words);
            outcome.status = context.run();
        } catch (const CLI::ParseError &error) { // as main() does
            outcome.status = misuse(error.what());
        }
        outcome.out = testing::internal::GetCapturedStdout();
        outcome.err = testing::internal::GetCapturedStderr();
        ::dup2(old, STDIN_FILENO);
        ::close(old);
        ::close(given);
        return outcome;
    }
    std::string broker_says(const std::string &request) const {
        if (request.starts_with("POST /v1/plans ")) return answer(model::print_json(to_json(reply)));
        if (request.find("/place ") != std::string::npos)
            return answer(R"({"parts":[{"site":"s1","job":7},{"site":"s2","job":3}]})");
        return answer("{}");
    }
    Server::Handler broker() {
        return [this](const std::string &request) { return broker_says(request); };
    }
    std::string read(const std::string &name) const {
        std::ifstream file(slurm.folder / name);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static bool saw(const Server &server, const std::string &beginning) {
        for (const auto &request : server.requests())
            if (request.starts_with(beginning)) return true;
        return false;
    }
};

} // namespace spider::cli
