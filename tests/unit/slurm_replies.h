// SPDX-License-Identifier: GPL-3.0-or-later
// Replies in tests/data/slurmrestd are those of real sites (slurmrestd 22.05.8).
#pragma once

#include "model/json.h"
#include "slurm/api.h"
#include "util/fd.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace spider::test {

inline slurm::Reply recorded(const std::string &file, int status = 200) {
    auto body = util::read_file(SF_TEST_DATA "/slurmrestd/" + file);
    EXPECT_TRUE(body.ok()) << file;
    return {status, body.ok() ? *body : "", 0};
}

inline std::unique_ptr<slurm::Api> api() { return slurm::make_api("v0.0.38"); }

inline model::Json body_of(const slurm::Call &call) {
    auto json = model::parse_json(call.body);
    EXPECT_TRUE(json.ok()) << call.body;
    return json.ok() ? *json : model::Json();
}

inline bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != text.npos;
}

} // namespace spider::test
