// SPDX-License-Identifier: GPL-3.0-or-later
// The files of SPEC's stage= that go with the parts to the other sites. Runs tar, sha256sum and base64 as the
// user.
#pragma once

#include "wire/messages.h"

#include <string>
#include <vector>

namespace spider::cli {

struct Travelling {
    std::string directory;          // where the script will run at home
    std::vector<std::string> paths; // below it; empty: nothing travels
    bool operator==(const Travelling &) const = default;
};

// Whether all of it is there, can be read, and is files and directories alone. One line if not.
Result<void> look(const Travelling &travelling);

// One archive; the same content gives the same bytes.
Result<wire::Archive> pack(const Travelling &travelling);

} // namespace spider::cli
