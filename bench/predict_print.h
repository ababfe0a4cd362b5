// SPDX-License-Identifier: GPL-3.0-or-later
// The tables that `make predict` prints, as Markdown: docs/prediction.md holds them as they are.
#pragma once

#include "bench/predict_data.h"
#include "util/result.h"

#include <string>

namespace spider::bench {

void print_clusters(const Measured &measured);
Result<void> print_dtfm(const std::string &folder, const Measured &measured);
void print_links(const Measured &measured);
void print_fits(const Measured &measured);

} // namespace spider::bench
