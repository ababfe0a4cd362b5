// SPDX-License-Identifier: GPL-3.0-or-later
// The shapes of web that a job and its sites allow: TP x P x D, and how wide the groups are.
#pragma once

#include "plan/problem.h"
#include "plan/web.h"

#include <vector>

namespace spider::plan {

struct RatedShape {
    Shape shape;
    Seconds bound = 0;    // no web of this shape is faster
    Seconds estimate = 0; // of a web on the sites around the most central one
};

// Stage counts worth a try: all up to 12, and of the greater ones those with a shorter longest stage. Data
// sizes divide the batch evenly.
std::vector<int> stage_counts(const JobSpec &spec, int layers);
std::vector<int> data_sizes(const JobSpec &spec, int most);

// Best estimate first; of equal ones the fewest cells.
std::vector<RatedShape> shapes_over_sites(const Problem &problem);
std::vector<RatedShape> shapes_at_site(const Problem &problem, int site);

} // namespace spider::plan
