// SPDX-License-Identifier: GPL-3.0-or-later
// iperf3 --json: its own words are in iperf_api.c. What counts is payload that arrived.
#include "probe/import_formats.h"

#include <algorithm>

namespace spider::probe {

namespace {

constexpr double bits_per_gbit = 1e9;

// 10th percentile of what the intervals carried that iperf3 itself did not leave out.
double low_of(const Json &json, std::string_view sum) {
    std::vector<double> rates;
    for (const auto &interval : model::at(json, "intervals")) {
        const auto &one = model::at(interval, sum);
        const auto rate = model::number_at(one, "bits_per_second");
        if (rate && !model::bool_at(one, "omitted")) rates.push_back(*rate / bits_per_gbit);
    }
    if (rates.empty()) return 0;
    std::sort(rates.begin(), rates.end());
    return rates[(rates.size() - 1) / 10];
}

struct Direction {
    std::string_view received, sent, interval;
    bool back = false;
};

Result<Sample> sample_of(const Json &json, const Direction &direction, const Sample &common) {
    const auto &end = model::at(json, "end");
    auto sample = common;
    if (direction.back) std::swap(sample.from, sample.to);
    const auto &received = model::at(end, direction.received);
    const auto rate = model::number_at(received, "bits_per_second");
    if (!rate)
        return Error{Errc::invalid, "end: " + std::string(direction.received) + ": bits_per_second: missing"};
    const auto lost = model::number_at(received, "lost_percent").value_or(0); // of UDP
    auto gbps = measured(*rate / bits_per_gbit * (1 - lost / 100), "a bandwidth in Gbit/s");
    if (!gbps) return std::move(gbps).error();
    sample.gbps = *gbps;
    sample.gbps_low = low_of(json, direction.interval);
    sample.bytes = model::number_at(received, "bytes").value_or(0);
    sample.retransmits = static_cast<std::int64_t>(
        model::number_at(model::at(end, direction.sent), "retransmits").value_or(0));
    return sample;
}

Result<Sample> common_of(const Json &json, const ImportOptions &options) {
    const auto &start = model::at(json, "start");
    const auto &test = model::at(start, "test_start");
    const auto &connected = model::at(start, "connected");
    const auto &first = connected.is_array() && !connected.empty() ? connected.front() : Json();
    auto ends = ends_of(model::text_at(first, "local_host"), model::text_at(first, "remote_host"), options);
    if (!ends) return std::move(ends).error();
    Sample sample{.from = ends->first, .to = ends->second, .source = Source::iperf3};
    sample.at = model::number_at(model::at(start, "timestamp"), "timesecs").value_or(options.at);
    if (sample.at <= 0) return Error{Errc::invalid, no_time};
    sample.streams = count_of(model::number_at(test, "num_streams"));
    sample.congestion = model::text_at(model::at(json, "end"), "sender_tcp_congestion");
    return sample;
}

} // namespace

// The client is `from`; with --reverse the server sends. Its round trips are those of a full link, with the
// queue that the test itself made: they are not taken.
Result<Imported> read_iperf3(const Json &json, const ImportOptions &options) {
    if (const auto error = model::text_at(json, "error"); !error.empty())
        return Error{Errc::invalid, "the test failed: " + error};
    const auto &end = model::at(json, "end"), &start = model::at(json, "start");
    if (!end.is_object()) return Error{Errc::invalid, "end: missing; is this from iperf3 --json?"};
    if (start.contains("accepted_connection"))
        return Error{Errc::invalid, "it is the server's file; import the client's"};
    const auto common = common_of(json, options);
    if (!common) return common.error();
    const auto &test = model::at(start, "test_start");
    const bool reverse = model::number_at(test, "reverse").value_or(0) != 0;
    const std::string_view received = model::at(end, "sum_received").is_object() ? "sum_received" : "sum";
    Imported found;
    auto forth = sample_of(json, {received, "sum_sent", "sum", reverse}, *common);
    if (!forth) return std::move(forth).error();
    if (auto free = not_limited(forth->gbps, model::number_at(test, "target_bitrate").value_or(0)); !free)
        return std::move(free).error();
    if (model::at(end, "sum_received_bidir_reverse").is_object()) { // 3.12 says so nowhere else
        auto back = sample_of(
            json, {"sum_received_bidir_reverse", "sum_sent_bidir_reverse", "sum_bidir_reverse", true},
            *common);
        if (!back) return std::move(back).error();
        forth->gbps_both = forth->gbps, back->gbps_both = back->gbps;
        found.samples.push_back(*back);
    }
    found.samples.push_back(*forth);
    return found;
}

} // namespace spider::probe
