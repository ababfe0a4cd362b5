// SPDX-License-Identifier: GPL-3.0-or-later
// The history of measured links, a SQLite file of its own: its loss costs measurements, never a job. Owned
// and used by the broker's thread. After an error all goes on without it.
#pragma once

#include "broker/database.h"
#include "probe/sample.h"
#include "util/clock.h"

#include <string>
#include <vector>

namespace spider::broker {

class LinkBook {
  public:
    // Makes the file (0600) when it is not there. A newer form is refused.
    static Result<LinkBook> open(const std::string &path);

    Result<void> add(const std::vector<probe::Sample> &samples); // all or none
    // Those that were measured after `since`, oldest first; what cannot be read any more is left out.
    Result<std::vector<probe::Sample>> load(Seconds since);
    Result<void> forget(Seconds before);

  private:
    explicit LinkBook(Database database) : database_(std::move(database)) {}
    Database database_;
};

} // namespace spider::broker
