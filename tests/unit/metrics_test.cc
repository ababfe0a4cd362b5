// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/metrics.h"
#include "unit/exposition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace spider::broker {
namespace {

using test::Exposition;

Metrics sample() {
    Metrics metrics;
    metrics.jobs_by_state = {{"holding", 2}, {"running", 3}, {"rendezvous", 0}};
    metrics.ended_total = {{"done", 5'000'000'000}, {"failed", 1}, {"cancelled", 0}};
    metrics.attempts_total = {{"started", 7}, {"gave_back", 2}};
    metrics.idle_gpu_seconds_total = 412.25;
    metrics.turns_total = 2;
    metrics.oldest_wait = 61.5;
    metrics.journal_good = true;
    metrics.sites = {{.name = "s1",
                      .up = true,
                      .seen_at = 1700000000,
                      .token_expires = 1700000600,
                      .nodes = 4,
                      .free_gpus = 12,
                      .gpus = 16,
                      .requests = 100,
                      .failures = 3},
                     {.name = "s2", .token_expires = 1699999990}};
    metrics.now = 1700000004.5;
    metrics.version = "0.1.0";
    return metrics;
}

TEST(Metrics, HaveTheirNamesTypesAndValues) {
    const Exposition text(to_text(sample()));
    ASSERT_EQ(text.trouble, "");
    const std::map<std::string, double> expected{
        {"spiderflow_build_info{version=0.1.0}", 1},
        {"spiderflow_jobs{state=holding}", 2},
        {"spiderflow_jobs{state=running}", 3},
        {"spiderflow_jobs{state=rendezvous}", 0},
        {"spiderflow_jobs_ended_total{state=done}", 5e9},
        {"spiderflow_jobs_ended_total{state=failed}", 1},
        {"spiderflow_jobs_ended_total{state=cancelled}", 0},
        {"spiderflow_coalloc_attempts_total{result=started}", 7},
        {"spiderflow_coalloc_attempts_total{result=gave_back}", 2},
        {"spiderflow_barrier_idle_gpu_seconds_total", 412.25},
        {"spiderflow_coalloc_turns_total", 2},
        {"spiderflow_oldest_wait_seconds", 61.5},
        {"spiderflow_journal_good", 1},
        {"spiderflow_site_up{site=s1}", 1},
        {"spiderflow_site_up{site=s2}", 0},
        {"spiderflow_site_seen_seconds{site=s1}", 4.5}, // s2 was never seen
        {"spiderflow_token_expiry_seconds{site=s1}", 595.5},
        {"spiderflow_token_expiry_seconds{site=s2}", -14.5},
        {"spiderflow_site_nodes{site=s1}", 4},
        {"spiderflow_site_nodes{site=s2}", 0},
        {"spiderflow_site_gpus{site=s1,state=all}", 16},
        {"spiderflow_site_gpus{site=s1,state=free}", 12},
        {"spiderflow_site_gpus{site=s2,state=all}", 0},
        {"spiderflow_site_gpus{site=s2,state=free}", 0},
        {"spiderflow_site_requests_total{site=s1}", 100},
        {"spiderflow_site_requests_total{site=s2}", 0},
        {"spiderflow_site_failures_total{site=s1}", 3},
        {"spiderflow_site_failures_total{site=s2}", 0},
    };
    EXPECT_EQ(text.series, expected);
    EXPECT_EQ(text.types.at("spiderflow_jobs"), "gauge");
    EXPECT_EQ(text.types.at("spiderflow_barrier_idle_gpu_seconds_total"), "counter");
}

TEST(Metrics, OfABrokerWithoutJobsAndSitesAreStillAWholeText) {
    const Exposition text(to_text({}));
    EXPECT_EQ(text.trouble, "");
    EXPECT_EQ(text.at("spiderflow_journal_good"), 0);
    EXPECT_EQ(text.at("spiderflow_build_info{version=}"), 1);
    EXPECT_EQ(text.series.size(), 5u) << "no family without a series";
    EXPECT_EQ(text.types.size(), 5u);
}

TEST(Metrics, ComeBackWholeFromLabelsThatNeedEscapes) {
    Metrics metrics;
    for (const auto *name : {"a\"b", "a\\", "a\nb", "a\\nb", "},x=\"1\"", "\xC3\xA9"})
        metrics.sites.push_back({.name = name, .up = true});
    const Exposition text(to_text(metrics));
    ASSERT_EQ(text.trouble, "");
    for (const auto &site : metrics.sites)
        EXPECT_EQ(text.at("spiderflow_site_up{site=" + site.name + "}"), 1) << site.name;
}

TEST(Metrics, HaveNoSeriesTwice) {
    auto metrics = sample();
    metrics.sites.push_back(metrics.sites.front());
    metrics.sites.back().requests = 7;
    const Exposition text(to_text(metrics));
    EXPECT_EQ(text.trouble, "");
    EXPECT_EQ(text.at("spiderflow_site_requests_total{site=s1}"), 100);
}

TEST(Metrics, OfStrangeSizesAreStillNumbers) {
    Metrics metrics;
    metrics.idle_gpu_seconds_total = 123456789.125;
    metrics.turns_total = 9'007'199'254'740'991;
    metrics.oldest_wait = std::numeric_limits<double>::infinity();
    metrics.sites = {{.name = "s1", .token_expires = 1e300}, {.name = "s2", .seen_at = std::nan("")}};
    metrics.sites[1].token_expires = -std::numeric_limits<double>::infinity();
    const auto shown = to_text(metrics);
    const Exposition text(shown);
    EXPECT_EQ(text.trouble, "");
    EXPECT_EQ(text.at("spiderflow_barrier_idle_gpu_seconds_total"), 123456789.125);
    EXPECT_EQ(text.at("spiderflow_coalloc_turns_total"), 9007199254740991.0);
    EXPECT_NE(shown.find("spiderflow_oldest_wait_seconds +Inf\n"), std::string::npos);
    EXPECT_EQ(text.at("spiderflow_token_expiry_seconds{site=s1}"), 1e300);
}

// The judge of the tests above can say no.
TEST(Metrics, ThatAreWrittenWronglyAreFoundByTheReader) {
    const std::string head = "# HELP a b\n# TYPE a gauge\n";
    EXPECT_EQ(Exposition(head + "a 1\n").trouble, "");
    for (const auto *bad : {"a 1",
                            "a 1\na 2\n",
                            "a{x=\"1\"} 1\na{x=\"1\"} 1\n",
                            "a{x=\"1} 1\n",
                            "a{x=\"1\"\"} 1\n",
                            "a{x=\"\\t\"} 1\n",
                            "a{x=1} 1\n",
                            "a{1x=\"\"} 1\n",
                            "a{x=\"\",x=\"\"} 1\n",
                            "a{} 1\n",
                            "a one\n",
                            "a inf\n",
                            "a 0x1\n",
                            "a \n",
                            "a\n",
                            "b 1\n",
                            "\n",
                            "# HELP a c\n",
                            "# TYPE a gauge\n",
                            "# HELP c_total d\n# TYPE c_total gauge\nc_total 1\n",
                            "# HELP c d\n# TYPE c counter\nc 1\n",
                            "# HELP c d\nc 1\n",
                            "# HELP c d\n# TYPE c gauge\nc 1\na 1\n",
                            "# EOF\n"})
        EXPECT_NE(Exposition(head + bad).trouble, "") << bad;
}

} // namespace
} // namespace spider::broker
