// SPDX-License-Identifier: GPL-3.0-or-later
// perfSONAR: what pScheduler prints and archives of its tests throughput, rtt and latency. Times of a result
// are ISO 8601 durations, latencies a histogram of milliseconds.
#include "probe/import_formats.h"

#include "util/text.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace spider::probe {

namespace {

constexpr double bits_per_gbit = 1e9;

Error invalid(std::string what) { return {Errc::invalid, std::move(what)}; }

// "PT0.0255S", "PT1M2.5S" in ms; nothing = not such a duration, or days.
std::optional<double> milliseconds_of(const std::string &text) {
    std::string_view rest = text;
    if (!rest.starts_with("PT")) return std::nullopt;
    rest.remove_prefix(2);
    double seconds = 0;
    for (const auto &[unit, factor] : {std::pair('H', 3600.0), std::pair('M', 60.0), std::pair('S', 1.0)}) {
        const auto end = rest.find(unit);
        if (end == std::string_view::npos) continue;
        const auto value = util::to_double(rest.substr(0, end));
        if (!value) return std::nullopt;
        seconds += factor * *value;
        rest.remove_prefix(end + 1);
    }
    return rest.empty() ? std::optional(1e3 * seconds) : std::nullopt;
}

Result<Sample> read_throughput(const Json &result, Sample sample) {
    const auto &summary = model::at(model::at(result, "summary"), "summary");
    auto bits = model::number_at(summary, "receiver-throughput-bits"); // what arrived, where it is told
    if (!bits) bits = model::number_at(summary, "throughput-bits");
    if (!bits) return invalid("summary: throughput-bits: missing");
    auto gbps = measured(*bits / bits_per_gbit, "a bandwidth in Gbit/s");
    if (!gbps) return std::move(gbps).error();
    sample.gbps = *gbps;
    sample.bytes = model::number_at(summary, "throughput-bytes").value_or(0);
    sample.retransmits = count_of(model::number_at(summary, "retransmits"));
    const auto &streams = model::at(model::at(result, "summary"), "streams");
    if (streams.is_array())
        sample.streams = static_cast<int>(std::min<std::size_t>(streams.size(), 1'000'000));
    std::vector<double> rates;
    for (const auto &interval : model::at(result, "intervals")) {
        const auto &one = model::at(interval, "summary");
        const auto rate = model::number_at(one, "throughput-bits");
        if (rate && !model::bool_at(one, "omitted")) rates.push_back(*rate / bits_per_gbit);
    }
    std::sort(rates.begin(), rates.end());
    if (!rates.empty()) sample.gbps_low = rates[(rates.size() - 1) / 10];
    return sample;
}

Result<Sample> read_rtt(const Json &result, Sample sample) {
    std::vector<double> trips;
    for (const auto &one : model::at(result, "roundtrips"))
        if (const auto ms = milliseconds_of(model::text_at(one, "rtt"))) trips.push_back(*ms);
    std::sort(trips.begin(), trips.end());
    const auto mean = milliseconds_of(model::text_at(result, "mean"));
    if (trips.empty() && !mean) return invalid("roundtrips and mean: missing; did no packet come back?");
    auto rtt = measured(trips.empty() ? *mean : trips[trips.size() / 2], "a round trip in ms");
    if (!rtt) return std::move(rtt).error();
    sample.rtt_ms = *rtt;
    sample.rtt_min_ms =
        milliseconds_of(model::text_at(result, "min")).value_or(trips.empty() ? 0 : trips.front());
    sample.rtt_p95_ms = trips.empty() ? 0 : trips[trips.size() * 95 / 100];
    return sample;
}

// One way; "histogram-latency": {"12.5": 3} is three packets of 12.5 ms.
Result<Sample> read_latency(const Json &result, Sample sample) {
    const auto &histogram = model::at(result, "histogram-latency");
    std::map<double, double> counts;
    double packets = 0;
    if (histogram.is_object())
        for (const auto &[text, count] : histogram.items()) {
            const auto ms = util::to_double(text);
            const auto number = model::number_of(count);
            if (!ms || !number || !(*number > 0))
                return invalid("histogram-latency: '" + text + "': not milliseconds and a count");
            counts[*ms] += *number;
            packets += *number;
        }
    if (counts.empty()) return invalid("histogram-latency: missing or empty; did no packet arrive?");
    const auto quantile = [&](double share) {
        double seen = 0;
        for (const auto &[ms, count] : counts)
            if (seen += count; seen >= share * packets) return ms;
        return counts.rbegin()->first;
    };
    sample.rtt_min_ms =
        counts.begin()->first; // below 0 where the clocks differ: both directions sum to the truth
    sample.rtt_ms = quantile(0.5);
    sample.rtt_p95_ms = quantile(0.95);
    return sample;
}

std::string participant(const Json &json, std::size_t index) {
    const auto &all = model::at(json, "participants");
    return all.is_array() && index < all.size() && all[index].is_string() ? all[index].get<std::string>()
                                                                          : std::string();
}

// The time in an archived record, in a run, or what the caller says.
Seconds time_in(const Json &json, const ImportOptions &options) {
    for (const auto &text :
         {model::text_at(model::at(json, "schedule"), "start"), model::text_at(json, "start-time")})
        if (const auto at = time_of(text)) return *at;
    return options.at;
}

Result<Imported> read_record(const Json &json, const ImportOptions &options) {
    const auto &merged = model::at(json, "result-merged"), &archived = model::at(json, "result");
    const auto &result = archived.is_object() ? archived : merged.is_object() ? merged : json;
    if (!model::bool_at(result, "succeeded", false))
        return invalid("the test did not succeed" + (model::text_at(result, "error").empty()
                                                         ? std::string()
                                                         : ": " + model::text_at(result, "error")));
    const auto &spec = model::at(model::at(json, "test"), "spec");
    auto from = model::text_at(spec, "source"), to = model::text_at(spec, "dest");
    if (from.empty()) from = participant(json, 0);
    if (to.empty()) to = participant(json, 1);
    auto ends = ends_of(from, to, options);
    if (!ends) return std::move(ends).error();
    Sample sample{
        .from = ends->first, .to = ends->second, .source = Source::perfsonar, .at = time_in(json, options)};
    if (model::bool_at(spec, "reverse")) std::swap(sample.from, sample.to);
    if (sample.at <= 0) return Error{Errc::invalid, no_time};
    Imported found;
    if (result.contains("histogram-latency")) {
        auto read = read_latency(result, sample);
        if (!read) return std::move(read).error();
        found.one_way.push_back(*read);
        return found;
    }
    auto read = result.contains("summary") ? read_throughput(result, sample) : read_rtt(result, sample);
    if (!read) return std::move(read).error();
    if (auto free = not_limited(read->gbps, model::number_at(spec, "bandwidth").value_or(0)); !free)
        return std::move(free).error();
    found.samples.push_back(*read);
    if (!result.contains("summary")) { // a round trip is that of both directions
        std::swap(sample.from, sample.to);
        auto back = *read;
        std::swap(back.from, back.to);
        found.samples.push_back(back);
    }
    return found;
}

} // namespace

Result<Imported> read_pscheduler(const Json &json, const ImportOptions &options) {
    if (json.is_object()) return read_record(json, options);
    if (!json.is_array()) return invalid("expected an object, or a list of them");
    Imported all;
    std::size_t number = 0;
    for (const auto &record : json) {
        if (!record.is_object()) return invalid("[" + std::to_string(number) + "]: expected an object");
        auto one = read_record(record, options);
        if (!one) return std::move(one).error().within("[" + std::to_string(number) + "]");
        all.samples.insert(all.samples.end(), one->samples.begin(), one->samples.end());
        all.one_way.insert(all.one_way.end(), one->one_way.begin(), one->one_way.end());
        ++number;
    }
    return all;
}

} // namespace spider::probe
