// SPDX-License-Identifier: GPL-3.0-or-later
// Links as people read them. Pure.
#pragma once

#include "federation/federation.h"
#include "wire/links.h"

#include <string>

namespace spider::cli {

// One line for each direction, those that are not known first, then the slowest.
std::string link_list(const wire::LinksView &view);

// Gbit/s, then ms: a row for each sender, a column for each receiver.
std::string link_matrix(const wire::LinksView &view);

// What a federation's file says of its links.
wire::LinksView links_of(const Federation &federation, Seconds now);

} // namespace spider::cli
