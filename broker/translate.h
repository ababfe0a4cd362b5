// SPDX-License-Identifier: GPL-3.0-or-later
// What the user asked of sbatch, in other tongues: options and environment for
// the home part, a submission for a part elsewhere. Pure functions.
#pragma once

#include "broker/settings.h"
#include "coalloc/decide.h"
#include "slurm/views.h"
#include "wire/messages.h"

#include <string>

namespace spider::broker {

// What sbatch must ask for the home part; `gres_type` as the home site's gres spells it, "" = no type.
wire::Pairs home_options(const coalloc::Job &job, const std::string &gres_type);
wire::Pairs home_environment(const coalloc::Job &job, const SiteConfig &home, const coalloc::Policy &policy);

// The part number `index` for its site's slurmrestd; `request` has only the SPANK options that are forwarded.
// Errc::invalid: an option that cannot be carried, or more than the site's Slurm takes.
Result<slurm::Submission> submission_of(const coalloc::Job &job, std::size_t index, const SiteConfig &site,
                                        const std::string &gres_type, const wire::PlaceRequest &request,
                                        const coalloc::Policy &policy);

// What a part's directory is at its site: `start`, where Slurm starts the script, and below it `rest`, which
// the script makes and enters, since only then the federated job has a folder of its own.
struct Directory {
    std::string start;
    std::string rest;
};
Directory directory_of(const coalloc::Job &job, const SiteConfig &site, const std::string &user);

// Of "PLUGIN_OPTION" -> value what `allowed`, "PLUGIN:OPTION" each, names in Slurm's spelling.
wire::Names forwarded(const wire::Names &options, const std::vector<std::string> &allowed);

// By which the nodes of other sites reach a node: the configuration's word, the site's own, its name.
std::string address_of(const SiteConfig &site, const std::vector<slurm::NodeView> &nodes,
                       const std::string &name);

// Of one part: with the word, once it is known, for the start that was seen; or with the wish that it gives
// its GPUs back.
std::string comment_of(const coalloc::Job &job, std::size_t part, bool give_back = false);

} // namespace spider::broker
