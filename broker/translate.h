// SPDX-License-Identifier: GPL-3.0-or-later
// What the user asked of sbatch, in other tongues: options and environment for
// the home part, a submission for a part elsewhere. Pure functions.
#pragma once

#include "broker/settings.h"
#include "coalloc/job.h"
#include "slurm/views.h"
#include "wire/messages.h"

#include <string>

namespace spider::broker {

// What sbatch must ask for the home part; `gres_type` as the home site's gres spells it, "" = no type.
wire::Pairs home_options(const coalloc::Job &job, const std::string &gres_type);
wire::Pairs home_environment(const coalloc::Job &job, const coalloc::Policy &policy);

// The part number `index` for its site's slurmrestd. Errc::invalid: an option that cannot be carried.
Result<slurm::Submission> submission_of(const coalloc::Job &job, std::size_t index, const SiteConfig &site,
                                        const std::string &gres_type, const wire::PlaceRequest &request,
                                        const coalloc::Policy &policy);

std::string comment_of(const coalloc::Job &job); // with the word, once it is known

} // namespace spider::broker
