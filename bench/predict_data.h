// SPDX-License-Identifier: GPL-3.0-or-later
// What others measured (tests/data/measured.json names each source), and the networks that they measured on.
// Plain values.
#pragma once

#include "model/site.h"
#include "util/result.h"

#include <string>
#include <vector>

namespace spider::bench {

struct ParallelSizes {
    int tp = 1, pp = 1, dp = 1;
};

// A row of Megatron-LM's table 1 (SC'21).
struct MegatronRow {
    double billions = 0; // parameters
    int heads = 0, hidden = 0, layers = 0, vocab = 0, sequence = 0, global_batch = 0;
    ParallelSizes sizes;
    Seconds seconds = 0; // of an iteration, from the table's TFLOP/s and its own formula for FLOPs
};

// A row of Llama 3's table 4.
struct LlamaRow {
    int gpus = 0, tp = 1, cp = 1, pp = 1, sequence = 0, batch_per_dp = 0;
    double teraflops = 0; // per GPU
};

// Means over seeds, in seconds of an iteration; 0: not measured. GPT3-XL's layers, one micro-batch of one
// sequence, eight stages by eight pipelines on 64 machines.
struct DtfmRow {
    int network = 0; // DT-FM's cases, from 1
    int layers = 0, batch = 0;
    Seconds megatron = 0, megatron_random = 0; // machines in their order, shuffled
    Seconds gpipe = 0, gpipe_random = 0;       // DT-FM's own system: scheduled, shuffled
};

// A link of an experiment between machines. "default": what the cloud gave, 10 Gbit/s.
struct Wire {
    std::string name;
    Seconds latency = 0;  // one way
    double bandwidth = 0; // bytes/s
};

struct PipelineRow {
    Wire wire;
    Seconds seconds = 0;
};

struct AllReduceRow {
    Wire wire;
    int machines = 0;
    Bytes bytes = 0;
    Seconds seconds = 0;
};

struct MessageRow {
    Wire wire;
    Bytes bytes = 0;
    Seconds seconds = 0;
};

struct Measured {
    std::vector<MegatronRow> megatron;
    std::vector<LlamaRow> llama;
    std::vector<DtfmRow> dtfm;
    std::vector<PipelineRow> pipelines; // one pipeline of eight stages of three layers, 96 micro-batches
    std::vector<AllReduceRow> all_reduces;
    std::vector<MessageRow> messages;
};

Result<Measured> read_measured(const std::string &folder); // tests/data

// DT-FM's emulated machines: tc limits and delays each pair of them by itself.
struct Machines {
    std::string name;
    std::vector<int> city;                // of each
    std::vector<Wire> local;              // inside each city
    std::vector<std::vector<Wire>> wires; // between two cities
    [[nodiscard]] const Wire &between(std::size_t a, std::size_t b) const;
};

Result<Machines> read_machines(const std::string &folder, int network);

} // namespace spider::bench
