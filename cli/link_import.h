// SPDX-License-Identifier: GPL-3.0-or-later
// What `spiderflow links import` reads.
#pragma once

#include "probe/sample.h"

#include <string>
#include <vector>

namespace spider::cli {

struct ImportRequest {
    std::vector<std::string> files;
    std::string format; // empty = by what stands in the file
    std::string from, to, at;
    std::vector<std::string> sites; // "HOST=SITE"
    bool dry_run = false;
};

// Of all files, or nothing: the first trouble is the error.
Result<std::vector<probe::Sample>> read_samples(const ImportRequest &request);

// For people, in the order of the files.
std::string sample_list(const std::vector<probe::Sample> &samples);

} // namespace spider::cli
