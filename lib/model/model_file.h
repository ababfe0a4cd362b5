// SPDX-License-Identifier: GPL-3.0-or-later
// What model= names: a Hugging Face config.json, {"explicit": ...} or {"profile": ...}; spiderflow-model(5).
#pragma once

#include "model/fields.h"

namespace spider::model {

// The largest values that any published model comes near, so that sums and products stay far from overflow.
constexpr int max_layers = 10'000;
constexpr int max_width = 10'000'000;
constexpr int max_vocab = 100'000'000;
constexpr int max_experts = 100'000;

struct ModelFile {
    ModelSpec model;
    int sequence = 0; // tokens, when the job does not say
};

// A folder stands for the config.json in it. Every error is one line that begins with the path.
Result<ModelFile> read_model_file(const std::string &path);

// The parts of such a file, and their JSON forms, which read back the same.
ModelSpec read_explicit(const Json &json, const std::string &place, std::optional<Error> &trouble);
Json explicit_json(const ModelSpec &model);
Measurement read_measurement(const Json &json, int layers, const std::string &place,
                             std::optional<Error> &trouble);
Json to_json(const Measurement &measurement);
ModelSpec read_model_spec(const Json &json, const std::string &place, std::optional<Error> &trouble);

} // namespace spider::model
