// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/sample.h"

#include "model/fields.h"
#include "util/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace spider::probe {

namespace {

constexpr std::array sources{
    std::pair(Source::probe, std::string_view("probe")), std::pair(Source::job, std::string_view("job")),
    std::pair(Source::perfsonar, std::string_view("perfsonar")),
    std::pair(Source::iperf3, std::string_view("iperf3")), std::pair(Source::file, std::string_view("file"))};

// Nearest rank: of fewer than ten values the lowest.
double percentile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    const auto rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

// Training sends both ways at once: the lower one of alone and together.
double usable_gbps(const Sample &sample) {
    return sample.gbps_both > 0 ? std::min(sample.gbps, sample.gbps_both) : sample.gbps;
}

// Those of the most trusted source, latest first.
std::vector<const Sample *> trusted(std::span<const Sample> samples, Seconds since,
                                    double Sample::*measured) {
    std::vector<const Sample *> found;
    for (const auto &sample : samples)
        if (sample.at >= since && sample.*measured > 0) found.push_back(&sample);
    if (found.empty()) return found;
    const auto best = (*std::min_element(found.begin(), found.end(), [](const auto *a, const auto *b) {
                          return a->source < b->source;
                      }))->source;
    // What a job saw where it ran is as good as what the agents saw.
    const auto as_good = [&](Source source) {
        return source == best || (best == Source::probe && source == Source::job);
    };
    std::erase_if(found, [&](const auto *sample) { return !as_good(sample->source); });
    std::stable_sort(found.begin(), found.end(), [](const auto *a, const auto *b) { return a->at > b->at; });
    return found;
}

} // namespace

std::string_view name(Source source) {
    for (const auto &[value, text] : sources)
        if (value == source) return text;
    return "";
}

std::optional<Source> source_named(std::string_view text) {
    for (const auto &[value, known] : sources)
        if (known == text) return value;
    return std::nullopt;
}

Result<void> plausible(const Sample &sample) {
    const auto refused = [&](const std::string &why) {
        return Error{Errc::invalid, sample.from + " -> " + sample.to + ": " + why};
    };
    const auto within = [](double value, double most) {
        return std::isfinite(value) && value >= 0 && value <= most;
    };
    for (const double gbps : {sample.gbps, sample.gbps_low, sample.gbps_both})
        if (!within(gbps, most_gbps))
            return refused(util::number(gbps) + " Gbit/s: no link is like that (0 to " +
                           util::number(most_gbps) + ")");
    for (const double ms : {sample.rtt_min_ms, sample.rtt_ms, sample.rtt_p95_ms})
        if (!within(ms, most_rtt_ms))
            return refused("a round trip of " + util::number(ms) + " ms: no link is like that (0 to " +
                           util::number(most_rtt_ms) + ")");
    if (sample.gbps <= 0 && sample.rtt_ms <= 0)
        return refused("neither bandwidth nor round trip was measured");
    if (!std::isfinite(sample.at) || sample.at <= 0) return refused("the time of the measurement is missing");
    if (sample.from == sample.to) return refused("from a site to itself");
    return {};
}

std::optional<Known> known(std::span<const Sample> samples, Seconds now, Seconds max_age) {
    auto rates = trusted(samples, now - max_age, &Sample::gbps);
    const auto trips = trusted(samples, now - max_age, &Sample::rtt_ms);
    if (rates.empty() || trips.empty()) return std::nullopt;
    rates.resize(std::min(rates.size(), samples_used));
    std::vector<double> values;
    for (const auto *sample : rates)
        values.push_back(usable_gbps(*sample));
    Known known;
    known.gbps = percentile(values, 0.1);
    known.gbps_median = percentile(values, 0.5);
    known.streams = rates.front()->streams;
    known.source = rates.front()->source;
    known.samples = static_cast<int>(rates.size());
    known.rtt_ms = trips.front()->rtt_ms;
    known.rtt_min_ms = trips.front()->rtt_min_ms;
    known.rtt_p95_ms = trips.front()->rtt_p95_ms;
    known.measured_at = std::min(rates.front()->at, trips.front()->at);
    return known;
}

Json to_json(const Sample &sample) {
    return {{"from", sample.from},           {"to", sample.to},
            {"source", name(sample.source)}, {"at", sample.at},
            {"gbps", sample.gbps},           {"gbps_low", sample.gbps_low},
            {"gbps_both", sample.gbps_both}, {"rtt_min_ms", sample.rtt_min_ms},
            {"rtt_ms", sample.rtt_ms},       {"rtt_p95_ms", sample.rtt_p95_ms},
            {"streams", sample.streams},     {"retransmits", sample.retransmits},
            {"bytes", sample.bytes},         {"congestion", sample.congestion}};
}

Result<Sample> sample_from_json(const Json &json) {
    std::optional<Error> trouble;
    model::Fields fields(json, "link", trouble);
    Sample sample;
    sample.from = fields.text("from");
    sample.to = fields.text("to");
    sample.source = fields.choice_or("source", Source::file, source_named);
    sample.at = fields.real("at", 0);
    sample.gbps = fields.real_or("gbps", 0, 0);
    sample.gbps_low = fields.real_or("gbps_low", 0, 0);
    sample.gbps_both = fields.real_or("gbps_both", 0, 0);
    sample.rtt_min_ms = fields.real_or("rtt_min_ms", 0, 0);
    sample.rtt_ms = fields.real_or("rtt_ms", 0, 0);
    sample.rtt_p95_ms = fields.real_or("rtt_p95_ms", 0, 0);
    sample.streams = fields.integer_or("streams", 0, 0);
    sample.retransmits = fields.integer_or("retransmits", 0, 0);
    sample.bytes = fields.real_or("bytes", 0, 0);
    sample.congestion = fields.text_or("congestion", "");
    if (trouble) return std::move(*trouble);
    return sample;
}

} // namespace spider::probe
