// SPDX-License-Identifier: GPL-3.0-or-later
// The network interface by which this node reaches the master. Asks the kernel's routes, sends nothing.
#pragma once

#include <string>

namespace spider::spank {

// One concrete name, or nothing when the address is not numeric, has no route, or no interface holds the
// source.
std::string interface_towards(const std::string &address);

} // namespace spider::spank
