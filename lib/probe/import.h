// SPDX-License-Identifier: GPL-3.0-or-later
// Measurements that others made, as samples: iperf3 -J, perfSONAR's pScheduler, lists and matrices. One
// thread.
#pragma once

#include "probe/sample.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace spider::probe {

enum class Format { any, iperf3, pscheduler, csv, toml }; // any: by what stands in the file
std::optional<Format> format_named(std::string_view text);

constexpr std::size_t largest_import = 16 << 20; // bytes of a file: days of intervals

struct ImportOptions {
    Format format = Format::any;
    std::string from, to;                                  // sites, for files that do not name their ends
    std::map<std::string, std::string, std::less<>> sites; // host or address -> site
    Seconds at = 0;                                        // for files that do not say when; 0 = not given
};

// "2026-11-03T10:15:00Z", with "+01:00", or seconds since the epoch; nothing = neither.
std::optional<Seconds> time_of(std::string_view text);

class Importer {
  public:
    explicit Importer(ImportOptions options) : options_(std::move(options)) {}

    // Errc::invalid, "FILE:LINE: ..." or "FILE: ...": not such a file, a test that failed, ends or a time
    // that nobody told, a result like no link has. Then nothing of the file counts.
    Result<void> add(const std::string &file, std::string_view text);

    // Of all files. One-way delays make a round trip where both directions were given; else an error.
    [[nodiscard]] Result<std::vector<Sample>> samples() const;

  private:
    ImportOptions options_;
    std::vector<Sample> samples_;
    std::vector<Sample> one_way_; // delays in place of round trips
};

} // namespace spider::probe
