// SPDX-License-Identifier: GPL-3.0-or-later
// Readers of one file each. Inside lib/probe only.
#pragma once

#include "probe/import.h"

namespace spider::probe {

struct Imported {
    std::vector<Sample> samples;
    std::vector<Sample> one_way; // rtt_ms and the others are delays of one direction
};

// Errors say what is wrong, without the file.
Result<Imported> read_iperf3(const Json &json, const ImportOptions &options);
Result<Imported> read_pscheduler(const Json &json, const ImportOptions &options);
// Errors say where, too: "FILE:LINE: ...".
Result<Imported> read_csv(const std::string &file, std::string_view text, const ImportOptions &options);
Result<Imported> read_toml(const std::string &file, std::string_view text, const ImportOptions &options);

// The ends of what a file holds: `options` where given, else the sites of these hosts.
Result<std::pair<std::string, std::string>> ends_of(const std::string &from_host, const std::string &to_host,
                                                    const ImportOptions &options);

// A count, as far as it is one.
int count_of(const std::optional<double> &value);

// Errc::invalid when a test was told to send no faster, and did: that is no bandwidth of the link.
Result<void> not_limited(double gbps, double limit_bits);

// A number that no measurement gives is refused by name: 0, negative, not a number.
Result<double> measured(double value, std::string_view what);

constexpr auto no_time = "it does not say when it was measured; give --at TIME";

} // namespace spider::probe
