// SPDX-License-Identifier: GPL-3.0-or-later
// The envelope of every slurmrestd answer: JSON with errors[] in it, or a line of plain text. Shared by all
// versions.
#pragma once

#include "model/json.h"
#include "slurm/http.h"
#include "util/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spider::slurm {

// slurm_errno.h
constexpr int slurm_no_change = 1900;
constexpr int slurm_unknown_job = 2017;
constexpr int slurm_job_finished = 2021;
constexpr int slurm_job_held = 2042;

struct SiteError {
    std::int64_t number = 0; // of slurm_errno.h; -1: "Unspecified error"; 0: none given
    std::string words;       // one line
};

struct Answer {
    int status = 0;
    model::Json json;
    std::vector<SiteError> errors;

    [[nodiscard]] bool has(std::int64_t number) const;
    [[nodiscard]] bool good() const { return status >= 200 && status < 300 && errors.empty(); }
};

// An error only when there is no JSON object in the reply: wrong path, token missing, broken JSON (says
// where).
Result<Answer> read_answer(const Reply &reply);

// Why an answer that is not good() is not: in the site's own words.
Error refusal(const Answer &answer);

std::string words(const std::vector<SiteError> &errors);             // joined, "" when there are none
std::string one_line(std::string_view text, std::size_t most = 300); // control characters become blanks

} // namespace spider::slurm
