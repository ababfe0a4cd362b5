// SPDX-License-Identifier: GPL-3.0-or-later
#include "bench/predict_data.h"

#include "model/fields.h"
#include "util/text.h"

#include <array>

namespace spider::bench {

namespace {

using model::Fields;
using model::Json;

constexpr double bytes_per_gigabit = 1e9 / 8;
constexpr int most = 1'000'000;

// "10ms/1G", "delay 5ms", "2G", "default", "default 0.1ms/10G".
Wire wire_named(const std::string &name) {
    Wire wire{name, 0.1e-3, 10 * bytes_per_gigabit};
    auto text = name;
    for (char &c : text)
        if (c == ' ') c = '/';
    for (const auto &word : util::split(text, '/')) {
        if (word.ends_with("ms"))
            wire.latency = util::to_double(word.substr(0, word.size() - 2)).value_or(0) / 1000;
        else if (word.ends_with('G'))
            wire.bandwidth = util::to_double(word.substr(0, word.size() - 1)).value_or(0) * bytes_per_gigabit;
    }
    return wire;
}

// Every row of a block of the file.
class Rows {
  public:
    Rows(const Json &file, std::optional<Error> &trouble) : file_(file), trouble_(trouble) {}

    template <class F>
    void each(std::string_view block, F read) {
        each_of(model::at(file_, block), std::string(block), read);
    }
    template <class F>
    void each_of(const Json &block, const std::string &place, F read) {
        Fields fields(block, place, trouble_);
        for (const auto &row : fields.list("rows")) {
            Fields one(row, place, trouble_);
            read(one, row);
        }
    }

  private:
    const Json &file_;
    std::optional<Error> &trouble_;
};

MegatronRow megatron_row(Fields &row) {
    return {.billions = row.real("params_B", 0),
            .heads = row.integer("heads", 1, most),
            .hidden = row.integer("hidden", 1, most),
            .layers = row.integer("layers", 1, most),
            .vocab = row.integer("vocab", 1, most),
            .sequence = row.integer("seq", 1, most),
            .global_batch = row.integer("global_batch", 1, most),
            .sizes = {row.integer("tp", 1, most), row.integer("pp", 1, most), row.integer("dp", 1, most)},
            .seconds = row.real("iter_s_derived", 0)};
}

LlamaRow llama_row(Fields &row) {
    return {.gpus = row.integer("gpus", 1, most),
            .tp = row.integer("tp", 1, most),
            .cp = row.integer("cp", 1, most),
            .pp = row.integer("pp", 1, most),
            .sequence = row.integer("seq", 1, most),
            .batch_per_dp = row.integer("batch_per_dp", 1, most),
            .teraflops = row.real("tflops", 0)};
}

// The mean of the columns of that name which have a value; 0: none.
Seconds mean_of(const Json &columns, const Json &values, std::string_view name) {
    double sum = 0;
    int count = 0;
    for (std::size_t i = 0; i < columns.size() && i < values.size(); ++i)
        if (columns[i] == name && values[i].is_number()) sum += values[i].get<double>(), ++count;
    return count > 0 ? sum / count : 0;
}

void read_dtfm(const Json &file, Rows &rows, std::vector<DtfmRow> &all) {
    const auto &cases = model::at(model::at(file, "dtfm_iteration_seconds"), "cases");
    for (int network = 1; network <= 5; ++network) {
        const auto name = "case" + std::to_string(network);
        const auto &one = model::at(cases, name);
        if (one.is_null()) continue;
        const auto &columns = model::at(one, "columns");
        rows.each_of(one, name, [&](Fields &row, const Json &json) {
            const auto mean = [&](std::string_view column) {
                return mean_of(columns, model::at(json, "values"), column);
            };
            const auto named = mean("Megatron-P8 (Default)");
            all.push_back({.network = network,
                           .layers = row.integer("layers", 1, most),
                           .batch = row.integer("batch", 1, most),
                           .megatron = named > 0 ? named : mean("Megatron-P8"),
                           .megatron_random = mean("Megatron-P8 (wo Scheduler)"),
                           .gpipe = mean("Ours w scheduler"),
                           .gpipe_random = mean("Ours wo Scheduler")});
        });
    }
}

void read_links(const Json &file, Rows &rows, Measured &measured) {
    rows.each("single_pipeline_gpipe_s", [&](Fields &row, const Json &) {
        measured.pipelines.push_back({wire_named(row.text("net")), row.real("pp", 0)});
    });
    const auto bytes = model::at(model::at(file, "nccl_allreduce_s"), "bytes");
    rows.each("nccl_allreduce_s", [&](Fields &row, const Json &json) {
        const auto wire = wire_named(row.text("net"));
        for (const auto &[key, machines] : {std::pair("n4", 4), {"n8", 8}, {"n16", 16}}) {
            const auto &seconds = model::at(json, key);
            for (std::size_t i = 0; i < seconds.size() && i < bytes.size(); ++i)
                measured.all_reduces.push_back(
                    {wire, machines, bytes[i].get<double>(), seconds[i].get<double>()});
        }
    });
    rows.each("nccl_p2p_ms", [&](Fields &row, const Json &) {
        const auto wire = wire_named(row.text("net"));
        for (const auto &[key, mebibytes] : {std::pair("mb64", 64), {"mb128", 128}})
            measured.messages.push_back({wire, mebibytes * 1048576.0, row.real(key, 0) / 1000});
    });
}

} // namespace

Result<Measured> read_measured(const std::string &folder) {
    const auto file = model::read_json_file(folder + "/measured.json");
    if (!file) return file.error();
    std::optional<Error> trouble;
    Rows rows(*file, trouble);
    Measured measured;
    rows.each("megatron_sc21_table1",
              [&](Fields &row, const Json &) { measured.megatron.push_back(megatron_row(row)); });
    rows.each("llama3_405b", [&](Fields &row, const Json &) { measured.llama.push_back(llama_row(row)); });
    read_dtfm(*file, rows, measured.dtfm);
    read_links(*file, rows, measured);
    if (trouble) return std::move(*trouble).within("measured.json");
    return measured;
}

const Wire &Machines::between(std::size_t a, std::size_t b) const {
    const auto from = static_cast<std::size_t>(city[a]), to = static_cast<std::size_t>(city[b]);
    return from == to ? local[from] : wires[from][to];
}

Result<Machines> read_machines(const std::string &folder, int network) {
    constexpr std::array names{"",
                               "case1_datacenter_ondemand",
                               "case2_datacenter_spot",
                               "case3_two_universities",
                               "case4_regional_us",
                               "case5_worldwide"};
    const std::string name = names[static_cast<std::size_t>(network)];
    const auto path = folder + "/topologies/dtfm_" + name + ".json";
    const auto file = model::read_json_file(path);
    if (!file) return file.error();
    Machines machines{.name = name};
    std::optional<Error> trouble;
    for (const auto &site : model::at(*file, "sites")) {
        Fields fields(site, path, trouble);
        machines.city.insert(machines.city.end(), static_cast<std::size_t>(fields.integer("gpus", 1, most)),
                             static_cast<int>(machines.local.size()));
        machines.local.push_back({name, fields.real_or("intra_delay_ms", 0, 0) / 1000,
                                  fields.real_or("intra_gbps", 0, 0) * bytes_per_gigabit});
    }
    if (trouble) return *std::move(trouble);
    const auto &gbps = model::at(*file, "bw_gbps"), &delays = model::at(*file, "rtt_ms");
    for (std::size_t i = 0; i < machines.local.size(); ++i) {
        auto &row = machines.wires.emplace_back();
        for (std::size_t j = 0; j < machines.local.size(); ++j) {
            // The file's "rtt_ms" is the delay that netem gave each direction: its note says so.
            if (i == j)
                row.push_back(machines.local[i]);
            else
                row.push_back({name, model::number_of(delays[i][j]).value_or(0) / 1000,
                               model::number_of(gbps[i][j]).value_or(0) * bytes_per_gigabit});
        }
    }
    return machines;
}

} // namespace spider::bench
