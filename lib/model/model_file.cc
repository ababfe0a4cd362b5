// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/model_file.h"

#include <algorithm>
#include <filesystem>

namespace spider::model {

namespace {

constexpr std::size_t file_limit = 4u << 20; // lists of numbers for thousands of layers
constexpr int usual_sequence = 4096;         // when the model can do more; its own maximum if that is shorter

int usual_sequence_of(const Json &config, const ModelSpec &model) {
    if (model.positions > 0) return model.positions;
    const auto &text = at(config, "text_config");
    const auto longest = number_at(text.is_object() ? text : config, "max_position_embeddings");
    return longest && *longest >= 1 ? static_cast<int>(std::min<double>(*longest, usual_sequence))
                                    : usual_sequence;
}

Result<ModelFile> from_config(const Json &json) {
    auto model = read_hugging_face_config(json);
    if (!model) return std::move(model).error();
    const int sequence = usual_sequence_of(json, *model);
    return ModelFile{std::move(*model), sequence};
}

Result<ModelFile> from_explicit(const Json &json) {
    std::optional<Error> trouble;
    auto model = read_explicit(json, "explicit", trouble);
    if (trouble) return std::move(*trouble);
    const int sequence = model.costs->sequence;
    return ModelFile{std::move(model), sequence};
}

Result<ModelFile> from_json(const Json &json) {
    if (const auto &costs = at(json, "explicit"); !costs.is_null()) return from_explicit(costs);
    return from_config(json);
}

} // namespace

Result<ModelFile> read_model_file(const std::string &path) {
    std::error_code ignored;
    const auto file = std::filesystem::is_directory(path, ignored) ? path + "/config.json" : path;
    const auto json = read_json_file(file, file_limit);
    if (!json) return json.error();
    auto model = from_json(*json);
    if (!model) return Error{model.error().code, file + ": " + model.error().what};
    return model;
}

} // namespace spider::model
