// SPDX-License-Identifier: GPL-3.0-or-later
// `spiderflowd --recover`: the journal is lost, and the comments of the parts at the sites give back what
// they can. Only the journal is written; nothing is asked of a site but its list of jobs.
#pragma once

#include "broker/settings.h"
#include "coalloc/job.h"
#include "slurm/views.h"

#include <string>
#include <vector>

namespace spider::broker {

struct SiteJobs {
    std::string site;
    std::vector<slurm::JobView> jobs;
};

struct Rebuilt {
    std::vector<coalloc::Job> jobs; // to be written
    std::vector<std::string> lines; // for people, one a job
    std::int64_t last = 0;          // the highest number that a comment has
};

// `known`: what the journal holds. Who a user is, is looked up on this host.
Rebuilt rebuild(const Config &config, const std::vector<SiteJobs> &sites,
                const std::vector<coalloc::Job> &known, Seconds now);

// Refused while a spiderflowd answers on the socket. Every site must answer within `longest` seconds, or
// nothing is written. Gives the lines to print; doing it again changes nothing.
Result<std::vector<std::string>> recover(const Config &config, Seconds longest);

} // namespace spider::broker
