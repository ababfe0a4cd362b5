// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/workload.h"

#include "model/gpu_table.h"
#include "plan/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace spider::plan {

namespace {

constexpr int plenty = 1'000'000'000;

template <class F>
PerLayer each_layer(int layers, F value) {
    PerLayer values;
    for (int layer = 0; layer < layers; ++layer)
        values.push_back(value(layer));
    return values;
}

PerLayer divided(PerLayer values, double by) {
    for (double &value : values)
        value /= by;
    return values;
}

// "a100" names "a100" and "a100_80gb", but not "a1000".
bool names(std::string_view name, std::string_view gpu) {
    return gpu == name || (gpu.starts_with(name) && (gpu[name.size()] == '_' || gpu[name.size()] == '-'));
}

// The one that was taken under conditions most like these; the type of GPU counts most.
const Measurement &nearest(const JobSpec &spec, const GpuType &gpu, int tp) {
    const auto likeness = [&](const Measurement &one) {
        return 16 * (one.layers.gpu == gpu.name) + 8 * names(one.layers.gpu, gpu.name) + 4 * (one.tp == tp) +
               2 * (one.micro_batch == spec.micro_batch) + (one.sequence == spec.sequence);
    };
    return *std::max_element(
        spec.model.measurements.begin(), spec.model.measurements.end(),
        [&](const Measurement &a, const Measurement &b) { return likeness(a) < likeness(b); });
}

// Times the formulas' seconds by measured over formulas' seconds of what was measured.
class Calibration {
  public:
    Calibration(const JobSpec &spec, const GpuType &gpu, int tp)
        : measured_(nearest(spec, gpu, tp)), as_measured_(spec),
          gpu_(names(measured_.layers.gpu, gpu.name)
                   ? gpu
                   : model::gpu_type_named(measured_.layers.gpu).value_or(gpu)) {
        as_measured_.micro_batch = measured_.micro_batch;
        as_measured_.sequence = measured_.sequence;
        as_measured_.recompute = measured_.recompute;
    }

    Times layer(const Times &formulas, int layer) {
        const auto then = layer_times(as_measured_, gpu_, measured_.tp, layer);
        const Times ratio{of_layer(measured_.layers.forward, layer) / then.forward,
                          of_layer(measured_.layers.backward, layer) / then.backward};
        sum_.forward += ratio.forward, sum_.backward += ratio.backward, ++layers_;
        return {formulas.forward * ratio.forward, formulas.backward * ratio.backward};
    }

    // After all layers: a head that was not measured is as much slower as they are.
    [[nodiscard]] Times head(const Times &formulas) const {
        const auto then = head_times(as_measured_, gpu_, measured_.tp);
        const auto ratio = [&](Seconds measured, Seconds formula, double layers) {
            return measured > 0 ? measured / formula : layers / layers_;
        };
        return {formulas.forward * ratio(measured_.head_forward, then.forward, sum_.forward),
                formulas.backward * ratio(measured_.head_backward, then.backward, sum_.backward)};
    }

  private:
    const Measurement &measured_; // borrowed from the job
    JobSpec as_measured_;
    GpuType gpu_;
    Times sum_; // of the layers' ratios
    int layers_ = 0;
};

const LayerSeconds &times_on(const ExplicitModel &costs, const GpuType &gpu) {
    const LayerSeconds *best = &costs.times.front();
    for (const auto &times : costs.times)
        if (times.gpu.size() > best->gpu.size() && names(times.gpu, gpu.name)) best = &times;
    return *best;
}

} // namespace

LayerSums::LayerSums(const PerLayer &values) : each_(values.empty() ? 0 : values.front()) {
    if (std::all_of(values.begin(), values.end(), [this](double value) { return value == each_; })) return;
    before_.push_back(0);
    for (const double value : values)
        before_.push_back(before_.back() + value);
}

double LayerSums::over(int first, int last) const {
    if (before_.empty()) return each_ * (last - first + 1);
    return before_[static_cast<std::size_t>(last) + 1] - before_[static_cast<std::size_t>(first)];
}

Workload::Workload(const JobSpec &spec, int tp, std::span<const GpuType> gpus)
    : layers_(spec.model.layers), gpus_(gpus.begin(), gpus.end()) {
    for (const auto &gpu : gpus_)
        speeds_.push_back(speeds(spec, gpu, tp));
    if (spec.model.costs)
        take_explicit(spec.model, tp);
    else
        take_shape(spec, tp);
}

void Workload::take_explicit(const ModelSpec &model, int tp) {
    const auto &costs = *model.costs;
    boundary_ = costs.boundary;
    gradient_ = LayerSums(costs.gradient);
    state_ = LayerSums(divided(costs.state, tp));
    in_flight_ = LayerSums(divided(costs.activation, tp));
}

void Workload::take_shape(const JobSpec &spec, int tp) {
    const auto &model = spec.model;
    const auto bytes = bytewise(spec.precision);
    const auto end = [&](double parameters) {
        return End{.gradient = parameters * bytes.gradient,
                   .state = parameters * (bytes.weight + bytes.gradient) / tp,
                   .optimizer = parameters * bytes.optimizer / tp};
    };
    const auto of_layers = [&](Bytes End::*part) {
        return LayerSums(
            each_layer(layers_, [&](int layer) { return end(layer_parameters(model, layer)).*part; }));
    };
    boundary_ = boundary_bytes(spec);
    gradient_ = of_layers(&End::gradient);
    state_ = of_layers(&End::state);
    optimizer_ = of_layers(&End::optimizer);
    in_flight_ = LayerSums(each_layer(layers_, [&](int layer) { return layer_in_flight(spec, tp, layer); }));
    embedding_ = end(embedding_parameters(model));
    head_ = end(head_parameters(model));
    logits_ = logits_bytes(spec, tp);
    mixtures_ =
        LayerSums(each_layer(layers_, [&](int layer) { return has_experts(model, layer) ? 1.0 : 0.0; }));
    for (int layer = 0; layer < layers_ && spec.recompute == Recompute::full; ++layer)
        (has_experts(model, layer) ? working_mixture_ : working_dense_) = layer_activations(spec, tp, layer);
    if (model.tied_embeddings)
        tied_gradient_ = static_cast<double>(model.vocab) * model.hidden * bytes.gradient;
}

Workload::Speeds Workload::speeds(const JobSpec &spec, const GpuType &gpu, int tp) const {
    if (spec.model.costs) {
        const auto &times = times_on(*spec.model.costs, gpu);
        return {LayerSums(times.forward), LayerSums(times.backward), {}};
    }
    std::optional<Calibration> calibration;
    if (!spec.model.measurements.empty()) calibration.emplace(spec, gpu, tp);
    PerLayer forward, backward;
    for (int layer = 0; layer < layers_; ++layer) {
        auto times = layer_times(spec, gpu, tp, layer);
        if (calibration) times = calibration->layer(times, layer);
        forward.push_back(times.forward);
        backward.push_back(times.backward);
    }
    const auto head = head_times(spec, gpu, tp);
    return {LayerSums(forward), LayerSums(backward), calibration ? calibration->head(head) : head};
}

Times Workload::times(int gpu, int first, int last) const {
    const auto &speed = speeds_[static_cast<std::size_t>(gpu)];
    Times times{speed.forward.over(first, last), speed.backward.over(first, last)};
    if (last + 1 == layers_) {
        times.forward += speed.head.forward;
        times.backward += speed.head.backward;
    }
    return times;
}

Seconds Workload::fastest(int first, int last) const {
    Seconds least = std::numeric_limits<double>::infinity();
    for (int gpu = 0; gpu < static_cast<int>(gpus_.size()); ++gpu)
        least = std::min(least, times(gpu, first, last).both());
    return least;
}

bool Workload::has_head(int first, int last) const {
    return last + 1 == layers_ && !(first == 0 && tied_gradient_ > 0);
}

Bytes Workload::gradient(int first, int last) const {
    auto sum = gradient_.over(first, last);
    if (first == 0) sum += embedding_.gradient;
    if (has_head(first, last)) sum += head_.gradient;
    return sum;
}

Bytes Workload::working(int first, int last) const {
    const auto mixtures = mixtures_.over(first, last);
    const auto dense = mixtures < last - first + 1 ? working_dense_ : 0;
    return mixtures > 0 ? std::max(dense, working_mixture_) : dense;
}

Bytes Workload::memory(int first, int last, int depth, int dp) const {
    auto sum = state_.over(first, last) + optimizer_.over(first, last) / dp + working(first, last);
    if (first == 0) sum += embedding_.state + embedding_.optimizer / dp;
    if (has_head(first, last)) sum += head_.state + head_.optimizer / dp;
    if (last + 1 == layers_) sum += logits_;
    return sum + depth * in_flight_.over(first, last);
}

int Workload::depth_within(int gpu, int first, int last, int dp) const {
    const auto left = available(gpu) - memory(first, last, 0, dp);
    const auto each = in_flight_.over(first, last);
    if (left < each) return 0;
    return each > 0 ? static_cast<int>(std::min<double>(std::floor(left / each), plenty)) : plenty;
}

std::string trouble_with_tensor_size(const ModelSpec &model, int tp) {
    const auto says = "tp=" + std::to_string(tp);
    if (model.costs) {
        if (model.costs->tp == 0 || model.costs->tp == tp) return {};
        return says + ": the model's numbers hold for tp=" + std::to_string(model.costs->tp);
    }
    const auto divides = [tp](int size) { return size % tp == 0; };
    const bool heads = divides(model.heads) && (divides(model.kv_heads) || tp % model.kv_heads == 0);
    const auto *experts = model.experts ? &*model.experts : nullptr;
    const bool dense = !experts || !experts->dense_layers.empty();
    const bool columns = (!dense || divides(model.intermediate)) &&
                         (!experts || (divides(experts->width) && divides(experts->shared_width)));
    if (heads && columns) return {};
    auto text = says + " does not divide the model's " + std::to_string(model.heads) + " heads (" +
                std::to_string(model.kv_heads) + " for keys) and ";
    if (dense) text += std::to_string(model.intermediate) + " MLP columns";
    if (experts) text += (dense ? ", " : "") + std::to_string(experts->width) + " columns of an expert";
    if (experts && experts->shared_width > 0)
        text += ", " + std::to_string(experts->shared_width) + " of the shared ones";
    return text;
}

} // namespace spider::plan
