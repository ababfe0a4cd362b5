// SPDX-License-Identifier: GPL-3.0-or-later
// Peaks: dense bf16 with fp32 accumulation (fp16 for V100 and T4) from NVIDIA's and AMD's data sheets and
// white papers of each product; where a sheet prints the value with sparsity, half of it. Memory: the sheet's
// gigabytes as 1e9 bytes. What the chip has beyond that pays for the driver's context and NCCL. Efficiency:
// what `make predict` fits to published runs (docs/prediction.md): A100 to Megatron-LM (SC'21, table 1), H100
// to Llama 3 (table 4), V100 to DT-FM's pipeline in a LAN; types with the same chip as one of them take its
// value, the others are assumed to reach 0.4. Fabric: 0.8 of one direction of NVLink, Infinity Fabric or
// PCIe, which is what NCCL's all-reduce tests reach on large messages.
#include "model/gpu_table.h"

#include <array>
#include <cctype>

namespace spider::model {

namespace {

struct Row {
    std::string_view name;
    double teraflops;
    std::array<int, 2> gigabytes; // the first unless the name says the second ("a100_40gb", "V100-32")
    double fabric_gigabytes;      // per second
    double efficiency = 0.4;
};

constexpr double pcie3 = 10, pcie4 = 20, pcie5 = 40;
constexpr std::array rows{
    Row{"gb300", 2500, {288, 0}, 720},
    Row{"gb200", 2500, {186, 0}, 720},
    Row{"b300", 2250, {288, 0}, 720},
    Row{"b200", 2250, {180, 0}, 720},
    Row{"gh200", 989.4, {96, 144}, 360, 0.59},
    Row{"h200", 989.4, {141, 0}, 360, 0.59},
    Row{"h100", 989.4, {80, 96}, 360, 0.59},
    Row{"h100_pcie", 756, {80, 0}, pcie5, 0.59},
    Row{"h100_nvl", 835, {94, 0}, 240, 0.59},
    Row{"h800", 989.4, {80, 0}, 160, 0.59},
    Row{"h20", 148, {96, 141}, 360},
    Row{"a100", 312, {80, 40}, 240, 0.59},
    Row{"a800", 312, {80, 40}, 160, 0.59},
    Row{"a40", 149.7, {48, 0}, pcie4},
    Row{"a30", 165, {24, 0}, pcie4},
    Row{"a10", 125, {24, 0}, pcie4},
    Row{"a10g", 70, {24, 0}, pcie4},
    Row{"a6000", 154.8, {48, 0}, pcie4},
    Row{"rtx_a6000", 154.8, {48, 0}, pcie4},
    Row{"l40s", 362, {48, 0}, pcie4},
    Row{"l40", 181, {48, 0}, pcie4},
    Row{"l4", 121, {24, 0}, pcie4},
    Row{"v100", 125, {16, 32}, 120, 0.27},
    Row{"t4", 65, {16, 0}, pcie3},
    Row{"rtx_pro_6000", 503.8, {96, 0}, pcie5},
    Row{"rtx_6000_ada", 364.2, {48, 0}, pcie4},
    Row{"rtx_5090", 209.5, {32, 0}, pcie5},
    Row{"rtx5090", 209.5, {32, 0}, pcie5},
    Row{"rtx_4090", 165.2, {24, 0}, pcie4},
    Row{"rtx4090", 165.2, {24, 0}, pcie4},
    Row{"rtx_3090", 71, {24, 0}, pcie4},
    Row{"rtx3090", 71, {24, 0}, pcie4},
    Row{"mi355x", 2516.6, {288, 0}, 300},
    Row{"mi325x", 1307.4, {256, 0}, 250},
    Row{"mi300x", 1307.4, {192, 0}, 250},
    Row{"mi300a", 980.6, {128, 0}, 250},
    Row{"mi250x", 191.5, {64, 0}, 80}, // one of its two dies: Slurm counts each as a GPU
    Row{"mi250", 181, {64, 0}, 80},
    Row{"mi210", 181, {64, 0}, 40},
    Row{"mi100", 184.6, {32, 0}, 40},
};

// "NVIDIA A100-SXM4-40GB" -> "a100_sxm4_40gb"
std::string plain(std::string_view name) {
    std::string text;
    for (const char c : name) {
        const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        text += lower == '-' || lower == ' ' || lower == '.' ? '_' : lower;
    }
    for (const std::string_view vendor : {"nvidia_", "amd_", "tesla_", "quadro_", "geforce_", "instinct_"})
        if (text.starts_with(vendor)) text.erase(0, vendor.size());
    return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

const Row *row_for(std::string_view text) {
    const Row *best = nullptr;
    for (const auto &row : rows) {
        if (!text.starts_with(row.name)) continue;
        if (text.size() > row.name.size() && is_digit(text[row.name.size()])) continue; // a10 is no a100
        if (!best || row.name.size() > best->name.size()) best = &row;
    }
    return best;
}

// Whether a word of `text` is the number: "_40", "_40g", "_40gb".
bool says(std::string_view text, int number) {
    const auto word = "_" + std::to_string(number);
    for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        const auto end = at + word.size();
        if (end == text.size() || !is_digit(text[end])) return true;
    }
    return false;
}

} // namespace

std::optional<GpuType> gpu_type_named(std::string_view name) {
    const auto text = plain(name);
    const auto *row = row_for(text);
    if (!row) return std::nullopt;
    const bool other = row->gigabytes[1] != 0 && says(text.substr(row->name.size()), row->gigabytes[1]);
    GpuType gpu;
    for (const char c : name)
        gpu.name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    gpu.peak_flops = row->teraflops * 1e12;
    gpu.efficiency = row->efficiency;
    gpu.memory = row->gigabytes[other ? 1 : 0] * 1e9;
    gpu.fabric = row->fabric_gigabytes * 1e9;
    return gpu;
}

std::string known_gpu_types() {
    std::string names;
    for (const auto &row : rows)
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

} // namespace spider::model
