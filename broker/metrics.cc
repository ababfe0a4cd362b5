// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/metrics.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace spider::broker {
namespace {

std::string value_of(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return {text, end};
}

std::string escaped(const std::string &label) {
    std::string text;
    for (const char c : label) {
        if (c == '\\' || c == '"') text += '\\';
        text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return text;
}

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string words_of(const Labels &labels) {
    std::string text;
    for (const auto &[name, value] : labels)
        text += (text.empty() ? "{" : ",") + name + "=\"" + escaped(value) + "\"";
    return text.empty() ? text : text + "}";
}

// A metric with its series.
class Family {
  public:
    Family(std::string name, const char *type, std::string help)
        : name_("spiderflow_" + std::move(name)), type_(type), help_(std::move(help)) {}
    // The first value of a series stays: Prometheus refuses the whole text for a second one.
    void add(const Labels &labels, double value) { series_.emplace(words_of(labels), value); }
    [[nodiscard]] std::string text() const {
        if (series_.empty()) return {};
        auto text = "# HELP " + name_ + " " + help_ + "\n# TYPE " + name_ + " " + type_ + "\n";
        for (const auto &[labels, value] : series_)
            text += name_ + labels + " " + value_of(value) + "\n";
        return text;
    }

  private:
    std::string name_, type_, help_;
    std::map<std::string, double> series_; // by labels
};

constexpr auto gauge = "gauge", counter = "counter";

std::string single(const char *name, const char *type, const char *help, double value) {
    Family family(name, type, help);
    family.add({}, value);
    return family.text();
}

template <class Count>
std::string by(const char *label, const char *name, const char *type, const char *help,
               const std::map<std::string, Count> &counts) {
    Family family(name, type, help);
    for (const auto &[word, count] : counts)
        family.add({{label, word}}, static_cast<double>(count));
    return family.text();
}

std::string sites_text(const Metrics &metrics) {
    Family up("site_up", gauge, "Whether the last look at the nodes of the site went well.");
    Family seen("site_seen_seconds", gauge, "Age of the view of the site.");
    Family token("token_expiry_seconds", gauge, "Time until the site's token expires; negative: it has.");
    Family nodes("site_nodes", gauge, "Nodes in service at the site.");
    Family gpus("site_gpus", gauge, "GPUs in service at the site.");
    Family requests("site_requests_total", counter, "Requests to the site.");
    Family failures("site_failures_total", counter, "Requests without an answer, or with an error as one.");
    for (const auto &site : metrics.sites) {
        const Labels name{{"site", site.name}};
        up.add(name, site.up ? 1 : 0);
        if (site.seen_at > 0) seen.add(name, metrics.now - site.seen_at);
        if (site.token_expires > 0) token.add(name, site.token_expires - metrics.now);
        nodes.add(name, site.nodes);
        gpus.add({{"site", site.name}, {"state", "all"}}, site.gpus);
        gpus.add({{"site", site.name}, {"state", "free"}}, site.free_gpus);
        requests.add(name, static_cast<double>(site.requests));
        failures.add(name, static_cast<double>(site.failures));
    }
    std::string text;
    for (const auto *family : {&up, &seen, &token, &nodes, &gpus, &requests, &failures})
        text += family->text();
    return text;
}

std::string links_text(const Metrics &metrics) {
    Family bandwidth("link_bandwidth_bytes_per_second", gauge, "Bandwidth of the link, as plans take it.");
    Family rtt("link_rtt_seconds", gauge, "Round trip time of the link.");
    Family age("link_age_seconds", gauge, "Age of what is known of the link.");
    for (const auto &link : metrics.links) {
        const Labels name{{"from", link.from}, {"to", link.to}};
        bandwidth.add({{"from", link.from}, {"to", link.to}, {"source", link.source}}, link.bytes_per_second);
        rtt.add(name, link.rtt);
        if (link.measured_at > 0) age.add(name, metrics.now - link.measured_at);
    }
    return bandwidth.text() + rtt.text() + age.text();
}

} // namespace

std::string to_text(const Metrics &metrics) {
    Family build("build_info", gauge, "The version that runs; always 1.");
    build.add({{"version", metrics.version}}, 1);
    return build.text() +
           by("state", "jobs", gauge, "Federated jobs that the broker knows.", metrics.jobs_by_state) +
           by("state", "jobs_ended_total", counter, "Federated jobs that have ended.", metrics.ended_total) +
           by("result", "coalloc_attempts_total", counter, "Attempts to start all parts of a job.",
              metrics.attempts_total) +
           single("barrier_idle_gpu_seconds_total", counter,
                  "GPU-seconds that parts stood idle because others did not run yet.",
                  metrics.idle_gpu_seconds_total) +
           single("coalloc_turns_total", counter, "How often GPUs were given back to be taken later.",
                  static_cast<double>(metrics.turns_total)) +
           single("oldest_wait_seconds", gauge, "How long the job has waited that waits longest.",
                  metrics.oldest_wait) +
           single("journal_good", gauge, "Whether the journal can be written.",
                  metrics.journal_good ? 1 : 0) +
           sites_text(metrics) + links_text(metrics);
}

} // namespace spider::broker
