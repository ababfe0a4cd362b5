// SPDX-License-Identifier: GPL-3.0-or-later
// What the user asked of sbatch as options, environment, submissions and paths.
#include "broker/output_path.h"
#include "broker/translate.h"
#include "unit/broker_sample.h"
#include "util/comment.h"

#include <gtest/gtest.h>

namespace spider::broker {
namespace {

std::string value_of(const wire::Pairs &pairs, const std::string &name) {
    for (const auto &[key, value] : pairs)
        if (key == name) return value;
    return "(none)";
}

TEST(Translate, TheHomePartAsksForThePlansSizeAndKeepsTheUsersComment) {
    auto job = sample("a-3", 3, coalloc::State::planned);
    job.user_comment = "my run";
    job.options = {{"gres", "gpu:8,lscratch:10"}};
    const auto options = home_options(job, "h100");
    EXPECT_EQ(value_of(options, "nodes"), "1");
    EXPECT_EQ(value_of(options, "ntasks"), "1");
    EXPECT_EQ(value_of(options, "gres"), "gpu:h100:1,lscratch:10");
    EXPECT_EQ(value_of(options, "comment"), "my run spiderflow=a-3/1");
    EXPECT_EQ(value_of(options, "hold"), "");
    job.options = {{"gpus-per-node", "8"}};
    EXPECT_EQ(value_of(home_options(job, ""), "gpus-per-node"), "1");
    EXPECT_EQ(value_of(home_options(job, ""), "gres"), "(none)");
}

TEST(Translate, BesideOneGpuForEachTaskNoTypeIsAskedFor) {
    auto job = sample("a-3", 3, coalloc::State::planned);
    job.options = {{"gpus-per-task", "1"}};
    EXPECT_EQ(value_of(home_options(job, "h100"), "gres"), "gpu:1");
    EXPECT_EQ(value_of(home_options(job, "h100"), "gpus-per-task"), "(none)") << "the user's own stays";
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    const auto with = submission_of(job, 1, {}, "h100", request, {});
    EXPECT_EQ(value_of(with->environment, "SLURM_GPUS_PER_TASK"), "1");
    job.options.clear();
    const auto without = submission_of(job, 1, {}, "h100", request, {});
    EXPECT_EQ(value_of(without->environment, "SLURM_GPUS_PER_TASK"), "(none)");
}

TEST(Translate, TheInterfaceOfASiteGoesToItsPartsAlone) {
    const auto job = sample("a-3", 3, coalloc::State::planned);
    SiteConfig site;
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    EXPECT_EQ(value_of(home_environment(job, site, {}), "SLURM_SPIDERFLOW_IFNAME"), "(none)");
    EXPECT_EQ(value_of(submission_of(job, 1, site, "", request, {})->environment, "SLURM_SPIDERFLOW_IFNAME"),
              "(none)");
    site.interface = "=eth0";
    EXPECT_EQ(value_of(home_environment(job, site, {}), "SLURM_SPIDERFLOW_IFNAME"), "=eth0");
    EXPECT_EQ(value_of(submission_of(job, 1, site, "", request, {})->environment, "SLURM_SPIDERFLOW_IFNAME"),
              "=eth0");
}

TEST(Translate, OptionsOfOtherPluginsGoWhereTheListLetsThem) {
    const wire::Names given{
        {"pyxis_container_image", "nvcr.io#x"}, {"pyxis_no_container_remap_root", ""}, {"auks_auks", "yes"}};
    const auto allowed = forwarded(given, {"pyxis:container-image", "pyxis:no-container-remap-root", "x:y"});
    EXPECT_EQ(allowed,
              (wire::Names{{"pyxis_container_image", "nvcr.io#x"}, {"pyxis_no_container_remap_root", ""}}));
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    request.spank_options = allowed;
    const auto part =
        submission_of(sample("a-3", 3, coalloc::State::placing), 1, SiteConfig{}, "", request, {});
    const auto value = [&](const std::string &name) {
        return value_of(part->environment, "SLURM_SPANK__SLURM_SPANK_OPTION_" + name);
    };
    EXPECT_EQ(value("pyxis_container_image"), "nvcr.io#x");
    EXPECT_EQ(value("pyxis_no_container_remap_root"), "(null)") << "as Slurm's own sbatch leaves it";
    EXPECT_EQ(value("auks_auks"), "(none)");
}

TEST(Translate, OfAWorkdirWithTheJobInItSlurmGetsWhatIsThereBefore) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    SiteConfig site;
    const auto split = [&](const std::string &workdir) {
        site.workdir = workdir;
        const auto found = directory_of(job, site, "al");
        return found.start + "|" + found.rest;
    };
    EXPECT_EQ(split(""), "/home/alice/run|");
    EXPECT_EQ(split("/w/%u"), "/w/al|");
    EXPECT_EQ(split("/w/%u/%j"), "/w/al|a-3");
    EXPECT_EQ(split("/w/run-%j/out/%u"), "/w|run-a-3/out/al");
    EXPECT_EQ(split("/%j"), "/|a-3");
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    const auto part = submission_of(job, 1, site, "", request, {});
    EXPECT_EQ(part->directory, "/");
    EXPECT_EQ(value_of(part->environment, "PWD"), "/a-3");
    EXPECT_EQ(value_of(part->environment, "SLURM_SUBMIT_DIR"), "/a-3");
    EXPECT_NE(part->script.find("mkdir -p './a-3'"), std::string::npos) << part->script;
}

TEST(Translate, ARelativeOutputIsRelativeToThePartsDirectory) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    job.options = {{"output", "/home/alice/run/log/%j.out"}, {"error", "/var/log/err"}}; // as sbatch has them
    SiteConfig site;
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    EXPECT_EQ(submission_of(job, 1, site, "", request, {})->output, "/home/alice/run/log/%j.out");
    site.workdir = "/w";
    EXPECT_EQ(submission_of(job, 1, site, "", request, {})->output, "log/%j.out");
    EXPECT_EQ(submission_of(job, 1, site, "", request, {})->error, "/var/log/err");
}

TEST(Translate, MoreThanASiteTakesIsRefusedWithBothNumbers) {
    const auto job = sample("a-3", 3, coalloc::State::placing);
    SiteConfig site;
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    request.stage = {std::string(5'000'000, 'A'), std::string(64, '0')};
    EXPECT_EQ(submission_of(job, 1, site, "", request, {}).error().what,
              "script and stage are 5.1 MB, the site takes 4.2 MB; use a file system that both sites see, or "
              "a container image");
    site.max_script = 6'000'000;
    EXPECT_TRUE(submission_of(job, 1, site, "", request, {}));
    request.stage = {};
    request.script += std::string(6'000'000, '#');
    EXPECT_EQ(submission_of(job, 1, site, "", request, {}).error().what.find("the script is 6.1 MB, "), 0u);
    site.max_script = 4096;
    request.script = "#!/bin/sh\n" + std::string(5000, '#') + "\n";
    const auto few = submission_of(job, 1, site, "", request, {}).error().what;
    EXPECT_NE(few.find(" bytes, the site takes 4096 bytes; "), std::string::npos) << few;
}

TEST(Translate, AnAddressOfTheConfigurationComesBeforeTheSitesOwn) {
    SiteConfig site;
    site.addresses = {{"n1", "fd00::1"}};
    const std::vector<slurm::NodeView> nodes{
        {.name = "n1", .address = "10.0.0.1"}, {.name = "n2", .address = "10.0.0.2"}, {.name = "n3"}};
    EXPECT_EQ(address_of(site, nodes, "n1"), "fd00::1");
    EXPECT_EQ(address_of(site, nodes, "n2"), "10.0.0.2");
    EXPECT_EQ(address_of(site, nodes, "n3"), "n3");
    auto job = sample("a-3", 3, coalloc::State::running);
    job.word = address_of(site, nodes, "n1") + "/29501";
    EXPECT_EQ(util::parse_comment(comment_of(job, 0))->word, "fd00::1/29501");
}

// Expected: the names of files that sbatch of Slurm 22.05.8 made for job 10 named "na me" of root on s1-n1.
TEST(OutputPath, IsWhatSlurmMakesOfThePattern) {
    auto job = sample("a-3", 3, coalloc::State::running);
    job.name = "na me";
    const coalloc::PartRecord part{
        .site = "b", .job = 10, .user = "root", .hosts = "s1-n[1-2]", .directory = "/d"};
    EXPECT_EQ(output_path("a-%j_%J_%s_%t_%n_%N_%a_%A_%x_%u_%%_%5j_%3n_%12j_%q_%b", job, part),
              "/d/a-10_10_batch_0_0_s1-n1_4294967294_10_na me_root_%_00010_000_0000000010_%q_%b");
    EXPECT_EQ(output_path("b\\-%j", job, part), "/d/b-%j");
    EXPECT_EQ(output_path("/abs/%", job, part), "/abs/%");
    EXPECT_EQ(output_path("", job, part), "");
}

TEST(OutputPath, KeepsWhatIsNotKnownYet) {
    const auto job = sample("a-3", 3, coalloc::State::placing);
    EXPECT_EQ(output_path("%N-%4j.out", job, {.directory = "/d%j"}), "/d%j/%N-%4j.out");
}

TEST(Translate, APartElsewhereCarriesWhatTheUserAskedInItsSitesWords) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    job.name = "train";
    job.options = {{"time", "1:30:00"}, {"cpus-per-task", "4"},  {"mem-per-gpu", "2G"}, {"partition", "gpu"},
                   {"account", "proj"}, {"signal", "B:USR1@60"}, {"output", "log-%j"},  {"exclusive", ""}};
    SiteConfig site;
    site.name = "b";
    site.partitions = {{"gpu", "big"}};
    site.account = "fallback";
    site.accounts = {{"proj", "p17"}};
    site.workdir = "/scratch/%u";
    wire::PlaceRequest request;
    request.script = "#!/bin/bash\nsrun hostname\n";
    request.environment = {{"MINE", "1"}, {"PATH", "/evil"}};
    request.arguments = {"x y"};
    const auto submission = submission_of(job, 1, site, "h100", request, {});
    ASSERT_TRUE(submission) << submission.error().what;
    EXPECT_EQ(submission->time_limit_minutes, 90);
    EXPECT_EQ(submission->cpus_per_task, 4);
    EXPECT_EQ(submission->memory_per_node_mb, 2048);
    EXPECT_EQ(submission->partition, "big");
    EXPECT_EQ(submission->account, "p17");
    EXPECT_EQ(submission->signal, "B:USR1@60");
    EXPECT_EQ(submission->output, "log-%j");
    EXPECT_EQ(submission->exclusive, "true");
    EXPECT_EQ(submission->directory, "/scratch/al");
    EXPECT_EQ(submission->comment, "spiderflow=a-3/1");
    EXPECT_NE(submission->script.find("set -- 'x y'\n"), std::string::npos);
    EXPECT_TRUE(submission->hold);
    EXPECT_EQ(value_of(submission->environment, "MINE"), "1");
    EXPECT_EQ(value_of(submission->environment, "PATH"), "/usr/local/bin:/usr/bin:/bin");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPIDERFLOW_SITE"), "b");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPIDERFLOW_SLOTS"), "1.0");
    EXPECT_EQ(value_of(submission->environment, "SLURM_SPANK__SLURM_SPANK_OPTION_spiderflow_spiderflow"),
              "(null)");
}

TEST(Translate, AnOptionThatCannotBeCarriedIsNamed) {
    auto job = sample("a-3", 3, coalloc::State::placing);
    job.options = {{"time", "soon"}};
    wire::PlaceRequest request;
    request.script = "#!/bin/sh\n";
    EXPECT_EQ(submission_of(job, 1, {}, "", request, {}).error().what.rfind("--time: ", 0), 0u);
    request.script = "echo no shebang\n";
    job.options = {};
    EXPECT_EQ(submission_of(job, 1, {}, "", request, {}).error().what,
              "the batch script does not begin with '#!'");
}

} // namespace
} // namespace spider::broker
