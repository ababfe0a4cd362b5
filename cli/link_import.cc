// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/link_import.h"

#include "cli/common.h"
#include "cli/table.h"
#include "federation/federation.h"
#include "probe/import.h"
#include "util/fd.h"
#include "util/text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace spider::cli {

namespace {

Error invalid(std::string what) { return {Errc::invalid, std::move(what)}; }

Result<std::string> text_of(const std::string &file) {
    if (file == "-") return read_all(STDIN_FILENO, probe::largest_import);
    const util::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return Error{Errc::not_found, file + ": " + std::strerror(errno)};
    auto text = read_all(fd.get(), probe::largest_import);
    return text ? text : Result<std::string>(std::move(text).error().within(file));
}

bool is_federation(const std::string &text) {
    const auto json = model::parse_json(text);
    return json && json->is_object() && json->contains("bw_gbps");
}

// The matrices of a federation's file; where it says when a link was measured, that counts.
Result<std::vector<probe::Sample>> read_matrices(const std::string &file, const std::string &text,
                                                 Seconds at) {
    const auto json = model::parse_json(text);
    if (!json) return Error(json.error()).within(file);
    const auto federation = federation::read_federation(*json);
    if (!federation) return Error(federation.error()).within(file);
    if (federation->links().empty())
        return invalid(file + ": no links in it: bw_gbps and rtt_ms are both needed");
    std::vector<probe::Sample> samples;
    for (const auto &link : federation->links()) {
        probe::Sample sample{.from = federation->site(link.from).name,
                             .to = federation->site(link.to).name,
                             .source = probe::Source::file,
                             .at = at,
                             .gbps = link.bandwidth_gbps,
                             .rtt_ms = link.rtt_ms,
                             .streams = link.streams};
        if (const auto *origin = federation->origin(link.from, link.to);
            origin != nullptr && origin->measured_at > 0)
            sample.at = origin->measured_at;
        if (sample.at <= 0)
            return invalid(file + ": " + sample.from + " -> " + sample.to +
                           ": it does not say when it was measured; give --at TIME");
        if (auto good = probe::plausible(sample); !good) return std::move(good).error().within(file);
        samples.push_back(std::move(sample));
    }
    return samples;
}

Result<probe::ImportOptions> options_of(const ImportRequest &request) {
    probe::ImportOptions options{.from = request.from, .to = request.to};
    if (request.from.empty() != request.to.empty()) return invalid("--from and --to: both, or neither");
    if (!request.format.empty() && request.format != "federation") {
        const auto format = probe::format_named(request.format);
        if (!format)
            return invalid("--format=" + request.format +
                           ": expected iperf3, pscheduler, csv, toml or federation");
        options.format = *format;
    }
    for (const auto &text : request.sites) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
            return invalid("--site " + text + ": expected HOST=SITE");
        options.sites[text.substr(0, equals)] = text.substr(equals + 1);
    }
    if (!request.at.empty()) {
        const auto at = probe::time_of(request.at);
        if (!at)
            return invalid("--at " + request.at +
                           ": expected YYYY-MM-DDTHH:MM:SSZ or seconds since the epoch");
        options.at = *at;
    }
    return options;
}

} // namespace

Result<std::vector<probe::Sample>> read_samples(const ImportRequest &request) {
    const auto options = options_of(request);
    if (!options) return options.error();
    probe::Importer importer(*options);
    std::vector<probe::Sample> matrices;
    for (const auto &file : request.files) {
        const auto text = text_of(file);
        if (!text) return text.error();
        if (request.format == "federation" || (request.format.empty() && is_federation(*text))) {
            auto read = read_matrices(file, *text, options->at);
            if (!read) return std::move(read).error();
            matrices.insert(matrices.end(), read->begin(), read->end());
        } else if (auto added = importer.add(file, *text); !added) {
            return std::move(added).error();
        }
    }
    auto samples = importer.samples();
    if (samples) matrices.insert(matrices.end(), samples->begin(), samples->end());
    return samples ? Result(std::move(matrices)) : samples;
}

std::string sample_list(const std::vector<probe::Sample> &samples) {
    const auto known = [](double value) { return value > 0 ? util::number(value, 4) : std::string("-"); };
    Table table({{"FROM"}, {"TO"}, {"GBIT/S", true}, {"RTT/MS", true}, {"MEASURED"}, {"SOURCE"}});
    for (const auto &sample : samples)
        table.add({sample.from, sample.to, known(sample.gbps), known(sample.rtt_ms),
                   util::local_time(sample.at), std::string(probe::name(sample.source))});
    return table.text();
}

} // namespace spider::cli
