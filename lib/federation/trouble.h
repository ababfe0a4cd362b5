// SPDX-License-Identifier: GPL-3.0-or-later
// What is wrong with the parts of a federation, in one line with its place; nothing = all is well. Pure, any
// thread.
#pragma once

#include "federation/federation.h"

namespace spider::federation {

std::optional<Error> trouble_with(const std::vector<Site> &sites);
std::optional<Error> trouble_with(const Link &link, const std::vector<Site> &sites);
std::optional<Error> trouble_with(const Network &network, const std::vector<Site> &sites);

} // namespace spider::federation
