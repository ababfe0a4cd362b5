// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/model_file.h"

#include <algorithm>
#include <filesystem>

namespace spider::model {

namespace {

constexpr std::size_t file_limit = 4u << 20; // lists of numbers for thousands of layers
constexpr std::size_t max_measurements = 100;
constexpr int usual_sequence = 4096; // when the model can do more; its own maximum if that is shorter

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

// "model" of a profile: a config.json itself, or the path of one, relative to the profile's folder.
Result<ModelFile> model_of(const Json &profile, const std::string &folder) {
    const auto &model = at(profile, "model");
    if (model.is_object()) return from_config(model);
    const auto path = text_at(profile, "model");
    if (path.empty())
        return Error{Errc::invalid, "model: missing; expected a Hugging Face config.json or the path of one"};
    auto file = (std::filesystem::path(folder) / path).string();
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) file += "/config.json";
    const auto json = read_json_file(file, file_limit);
    if (!json) return json.error();
    auto read = from_config(*json);
    if (!read) return std::move(read).error().within(file);
    return read;
}

// The measurements of a profile. What they share stands beside their list; a single one needs no list.
std::vector<Json> measurements_of(const Json &profile, Fields &fields) {
    if (!fields.has("measurements")) return {profile};
    const auto &list = fields.list("measurements");
    if (list.empty() || list.size() > max_measurements)
        fields.fail("measurements", "expected 1 to " + std::to_string(max_measurements));
    auto shared = profile;
    for (const auto *key : {"measurements", "model"})
        shared.erase(key);
    std::vector<Json> whole;
    for (std::size_t i = 0; i < list.size() && !fields.failed(); ++i) {
        whole.push_back(shared);
        if (list[i].is_object())
            whole.back().update(list[i]);
        else
            fields.fail("measurements", "expected a list of objects");
    }
    return whole;
}

Result<ModelFile> from_profile(const Json &profile, const std::string &folder) {
    auto file = model_of(profile, folder);
    if (!file) return std::move(file).error().within("profile");
    std::optional<Error> trouble;
    Fields fields(profile, "profile", trouble);
    auto &measurements = file->model.measurements;
    for (const auto &json : measurements_of(profile, fields)) {
        const auto number = "[" + std::to_string(measurements.size()) + "]";
        const auto place = "profile" + (fields.has("measurements") ? ": measurements" + number : "");
        measurements.push_back(read_measurement(json, file->model.layers, place, trouble));
    }
    if (trouble) return std::move(*trouble);
    file->sequence = measurements.front().sequence;
    return file;
}

Result<ModelFile> from_json(const Json &json, const std::string &folder) {
    if (const auto &costs = at(json, "explicit"); !costs.is_null()) return from_explicit(costs);
    if (const auto &profile = at(json, "profile"); !profile.is_null()) return from_profile(profile, folder);
    return from_config(json);
}

} // namespace

Result<ModelFile> read_model_file(const std::string &path) {
    std::error_code ignored;
    const auto file = std::filesystem::is_directory(path, ignored) ? path + "/config.json" : path;
    const auto json = read_json_file(file, file_limit);
    if (!json) return json.error();
    auto model = from_json(*json, std::filesystem::path(file).parent_path().string());
    if (!model) return Error{model.error().code, file + ": " + model.error().what};
    return model;
}

} // namespace spider::model
