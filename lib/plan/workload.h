// SPDX-License-Identifier: GPL-3.0-or-later
// What a job's model costs with one tensor-parallel size: seconds of any run of layers on any of `gpus`,
// bytes of its gradients, boundaries and memory. From formulas (plan/cost.h, plan/memory.h), scaled to
// measurements where the model has some, or from an explicit model. Every question is O(1). Immutable; any
// thread.
#pragma once

#include "model/job_spec.h"
#include "plan/cost.h"

#include <span>
#include <string>
#include <vector>

namespace spider::plan {

// Sums over runs of layers. Layers that are alike give the same sum wherever the run begins.
class LayerSums {
  public:
    LayerSums() = default;
    explicit LayerSums(const PerLayer &values); // one for all layers, or one for each
    [[nodiscard]] double over(int first, int last) const;

  private:
    double each_ = 0;
    std::vector<double> before_; // of the layers before this one; empty: all are `each_`
};

class Workload {
  public:
    Workload(const JobSpec &spec, int tp, std::span<const GpuType> gpus);

    [[nodiscard]] int layers() const { return layers_; }
    // One micro-batch through layers [first, last] on one slot of `tp` GPUs of type gpus[gpu]. The embedding
    // counts with layer 0; final norm, vocabulary head and loss with the last layer.
    [[nodiscard]] Times times(int gpu, int first, int last) const;
    [[nodiscard]] Seconds fastest(int first, int last) const; // the least of both() over all gpus

    [[nodiscard]] Bytes boundary() const {
        return boundary_;
    } // activations of one micro-batch; gradients: same
    // What the members of a stage reduce per iteration, whole slot.
    [[nodiscard]] Bytes gradient(int first, int last) const;
    // What first and last stage reduce beside that, if there are two: tied embeddings; else 0.
    [[nodiscard]] Bytes tied_gradient() const { return tied_gradient_; }

    // Per GPU, with `depth` micro-batches in flight and the optimizer's state shared by `dp` members.
    [[nodiscard]] Bytes memory(int first, int last, int depth, int dp) const;
    [[nodiscard]] int depth_within(int gpu, int first, int last,
                                   int dp) const; // greatest that fits; 0 = none
    [[nodiscard]] Bytes available(int gpu) const { return gpus_[static_cast<std::size_t>(gpu)].memory; }

  private:
    struct Speeds {
        LayerSums forward, backward;
        Times head;
    };
    // Of the embedding, or of the head.
    struct End {
        Bytes gradient = 0, state = 0, optimizer = 0;
    };

    void take_explicit(const ModelSpec &model, int tp);
    void take_shape(const JobSpec &spec, int tp);
    [[nodiscard]] Speeds speeds(const JobSpec &spec, const GpuType &gpu, int tp) const;
    [[nodiscard]] bool has_head(int first, int last) const; // beside the embedding, which a tied one is
    [[nodiscard]] Bytes working(int first, int last) const; // of the layer that is being recomputed

    int layers_;
    std::vector<GpuType> gpus_;
    std::vector<Speeds> speeds_; // of each of gpus_
    Bytes boundary_ = 0, tied_gradient_ = 0, logits_ = 0;
    LayerSums gradient_; // whole slot; what follows is per GPU
    LayerSums state_;    // but for the optimizer's, which `dp` divides
    LayerSums optimizer_, in_flight_;
    LayerSums mixtures_; // how many layers have experts
    Bytes working_dense_ = 0, working_mixture_ = 0;
    End embedding_, head_;
};

// "" or why tp cannot split the model: "tp=5 does not divide the model's 12 heads ...".
std::string trouble_with_tensor_size(const ModelSpec &model, int tp);

} // namespace spider::plan
