// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/measurement.h"

#include "model/fields.h"

namespace spider::probe {

namespace {

Sample sample_of(const Measurement &measurement, const Rate &alone, const Rate &both) {
    return {.source = Source::probe,
            .at = measurement.at,
            .gbps = alone.gbps,
            .gbps_low = alone.low,
            .gbps_both = both.gbps,
            .rtt_min_ms = measurement.rtt_min * 1e3,
            .rtt_ms = measurement.rtt_median * 1e3,
            .rtt_p95_ms = measurement.rtt_p95 * 1e3,
            .streams = measurement.streams,
            .retransmits = alone.retransmits,
            .bytes = alone.bytes + both.bytes,
            .congestion = alone.congestion};
}

} // namespace

Json to_json(const Rate &rate) {
    return {{"gbps", rate.gbps},
            {"low_gbps", rate.low},
            {"bytes", rate.bytes},
            {"retransmits", rate.retransmits},
            {"delivery_gbps", rate.delivery_gbps},
            {"congestion", rate.congestion}};
}

Rate read_rate(const Json &json, const std::string &place, std::optional<Error> &trouble) {
    model::Fields fields(json, "measurement: " + place, trouble);
    return {.gbps = fields.real("gbps", 0),
            .low = fields.real("low_gbps", 0),
            .bytes = fields.real("bytes", 0),
            .retransmits = fields.integer_or("retransmits", 0, 0),
            .delivery_gbps = fields.real_or("delivery_gbps", 0, 0),
            .congestion = fields.text_or("congestion", "")};
}

Json to_json(const Measurement &measurement) {
    return {{"at", measurement.at},
            {"streams", measurement.streams},
            {"rtt_min_seconds", measurement.rtt_min},
            {"rtt_median_seconds", measurement.rtt_median},
            {"rtt_p95_seconds", measurement.rtt_p95},
            {"forth", to_json(measurement.forth)},
            {"back", to_json(measurement.back)},
            {"forth_both", to_json(measurement.forth_both)},
            {"back_both", to_json(measurement.back_both)}};
}

Result<Measurement> measurement_from_json(const Json &json) {
    std::optional<Error> trouble;
    model::Fields fields(json, "measurement", trouble);
    Measurement measurement;
    measurement.at = fields.real("at", 0);
    measurement.streams = fields.integer("streams", 1);
    measurement.rtt_min = fields.real("rtt_min_seconds", 0);
    measurement.rtt_median = fields.real("rtt_median_seconds", 0);
    measurement.rtt_p95 = fields.real("rtt_p95_seconds", 0);
    measurement.forth = read_rate(fields.object("forth"), "forth", trouble);
    measurement.back = read_rate(fields.object("back"), "back", trouble);
    measurement.forth_both = read_rate(fields.object("forth_both"), "forth_both", trouble);
    measurement.back_both = read_rate(fields.object("back_both"), "back_both", trouble);
    if (trouble) return std::move(*trouble);
    return measurement;
}

std::array<Sample, 2> samples_of(const Measurement &measurement, const std::string &from,
                                 const std::string &to) {
    auto forth = sample_of(measurement, measurement.forth, measurement.forth_both);
    forth.from = from, forth.to = to;
    auto back = sample_of(measurement, measurement.back, measurement.back_both);
    back.from = to, back.to = from;
    return {forth, back};
}

} // namespace spider::probe
