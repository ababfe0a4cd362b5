// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/carriers.h"

#include "util/text.h"

#include <set>
#include <utility>

namespace spider::spank {
namespace {

constexpr int most = 10'000'000; // more ranks than any cluster has: a larger number is a corrupt one
constexpr int default_patience = 300;

Error bad(const char *name, const std::string &text, std::string_view expected) {
    return {Errc::invalid, std::string(name) + "='" + text + "': expected " + std::string(expected)};
}

Result<std::string> text_of(const Lookup &variable, const char *name) {
    auto text = variable(name);
    if (!text || text->empty()) return Error{Errc::not_found, std::string(name) + " is missing"};
    return *std::move(text);
}

std::optional<int> to_number(std::string_view text) {
    const auto value = util::to_int(text);
    if (!value || *value < 0 || *value > most) return std::nullopt;
    return static_cast<int>(*value);
}

Result<int> number_of(const Lookup &variable, const char *name, int least) {
    auto text = text_of(variable, name);
    if (!text) return std::move(text).error();
    const auto value = to_number(*text);
    if (!value || *value < least) return bad(name, *text, "a whole number from " + std::to_string(least));
    return *value;
}

// "1.0": stage 1, member 0.
std::optional<Slot> parse_slot(std::string_view text, const Carriers &sizes) {
    const auto dot = text.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const auto stage = to_number(text.substr(0, dot));
    const auto dp = to_number(text.substr(dot + 1));
    if (!stage || !dp || *stage >= sizes.pp || *dp >= sizes.dp) return std::nullopt;
    return Slot{*stage, *dp};
}

Result<void> read_slots(const Lookup &variable, Carriers &carriers) {
    const auto text = text_of(variable, carrier::slots);
    if (!text) return text.error();
    const std::string expected = "STAGE.DP,…/… with stages below " + std::to_string(carriers.pp) +
                                 " and members below " + std::to_string(carriers.dp) + ", each once";
    std::set<std::pair<int, int>> seen;
    for (const auto &group : util::split(*text, '/')) {
        auto &node = carriers.nodes.emplace_back();
        for (const auto &word : util::split(group, ',')) {
            const auto slot = parse_slot(word, carriers);
            if (!slot || !seen.insert({slot->stage, slot->dp}).second)
                return bad(carrier::slots, *text, expected);
            node.push_back(*slot);
        }
        if (node.empty()) return bad(carrier::slots, *text, expected);
    }
    return {};
}

std::optional<Layers> parse_layers(std::string_view text) {
    const auto dash = text.find('-');
    const auto first = to_number(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : to_number(text.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    return Layers{*first, *last};
}

Result<void> read_layers(const Lookup &variable, Carriers &carriers) {
    auto text = text_of(variable, carrier::layers);
    if (!text) return std::move(text).error();
    const std::string expected =
        std::to_string(carriers.pp) + " ranges FIRST-LAST,… without a gap, from layer 0";
    int next = 0;
    for (const auto &word : util::split(*text, ',')) {
        const auto range = parse_layers(word);
        if (!range || range->first != next) return bad(carrier::layers, *text, expected);
        next = range->last + 1;
        carriers.layers.push_back(*range);
    }
    if (static_cast<int>(carriers.layers.size()) != carriers.pp) return bad(carrier::layers, *text, expected);
    carriers.layers_text = *std::move(text);
    return {};
}

struct Number {
    const char *name;
    int Carriers::*field;
    int least;
};
constexpr Number numbers[] = {
    {carrier::attempt, &Carriers::attempt, 0},
    {carrier::world, &Carriers::world, 1},
    {carrier::tp, &Carriers::tp, 1},
    {carrier::pp, &Carriers::pp, 1},
    {carrier::dp, &Carriers::dp, 1},
    {carrier::nnodes, &Carriers::all_nodes, 1},
    {carrier::micro_batch, &Carriers::micro_batch, 1},
    {carrier::micro_batches, &Carriers::micro_batches, 1},
};

Result<void> read_numbers(const Lookup &variable, Carriers &carriers) {
    for (const auto &number : numbers) {
        const auto value = number_of(variable, number.name, number.least);
        if (!value) return value.error();
        carriers.*number.field = *value;
    }
    const auto product = static_cast<std::int64_t>(carriers.tp) * carriers.pp;
    if (product > most || product * carriers.dp != carriers.world)
        return bad(carrier::world, std::to_string(carriers.world),
                   "TP*PP*DP = " + std::to_string(carriers.tp) + "*" + std::to_string(carriers.pp) + "*" +
                       std::to_string(carriers.dp));
    return {};
}

// `count` numbers with commas between, each at least `least`.
Result<std::vector<int>> numbers_of(const Lookup &variable, const char *name, std::size_t count, int least) {
    const auto text = text_of(variable, name);
    if (!text) return text.error();
    std::vector<int> values;
    for (const auto &word : util::split(*text, ',')) {
        const auto value = to_number(word);
        if (!value || *value < least) break;
        values.push_back(*value);
    }
    if (values.size() != count || util::split(*text, ',').size() != count)
        return bad(name, *text, std::to_string(count) + " whole numbers from " + std::to_string(least));
    return values;
}

Result<void> read_lists(const Lookup &variable, Carriers &carriers) {
    auto depths = numbers_of(variable, carrier::depths, static_cast<std::size_t>(carriers.pp), 1);
    if (!depths) return std::move(depths).error();
    auto ranks = numbers_of(variable, carrier::node_ranks, carriers.nodes.size(), 0);
    if (!ranks) return std::move(ranks).error();
    carriers.depths = *std::move(depths);
    carriers.node_ranks = *std::move(ranks);
    return {};
}

// What the trainer is told.
void read_launch(const Lookup &variable, Carriers &carriers) {
    const auto text = [&](const char *name) { return variable(name).value_or(""); };
    carriers.recompute = text(carrier::recompute);
    carriers.master_site = text(carrier::master_site);
    carriers.trainer = text(carrier::trainer);
    carriers.per_node = text(carrier::launcher) == "torchrun";
    carriers.arguments = text(carrier::arguments);
    carriers.single_gpu_view = text(carrier::single_gpu_view) == "1";
    carriers.interface = text(carrier::interface);
    for (int number = 1;; ++number) {
        const auto file = variable((carrier::file + std::to_string(number)).c_str());
        if (!file) return;
        const auto blank = std::min(file->find(' '), file->size());
        carriers.files.emplace_back(
            file->substr(0, blank),
            util::unescape_line(std::string_view(*file).substr(std::min(blank + 1, file->size()))));
    }
}

} // namespace

int Carriers::tasks() const {
    int sum = 0;
    for (std::size_t node = 0; node < nodes.size(); ++node)
        sum += tasks_on(node);
    return sum;
}

Result<Carriers> read_carriers(const Lookup &variable) {
    Carriers carriers;
    auto job = text_of(variable, carrier::job);
    if (!job) return std::move(job).error();
    auto site = text_of(variable, carrier::site);
    if (!site) return std::move(site).error();
    carriers.job = *std::move(job);
    carriers.site = *std::move(site);
    if (auto read = read_numbers(variable, carriers); !read) return std::move(read).error();
    if (auto read = read_slots(variable, carriers); !read) return std::move(read).error();
    if (auto read = read_layers(variable, carriers); !read) return std::move(read).error();
    if (auto read = read_lists(variable, carriers); !read) return std::move(read).error();
    read_launch(variable, carriers);
    return carriers;
}

Result<Master> parse_master(std::string_view word) {
    const auto slash = word.find('/');
    const auto rest = slash == std::string_view::npos ? std::string_view() : word.substr(slash + 1);
    const auto port = to_number(rest.substr(0, rest.find('/')));
    if (!port || *port < 1 || *port > 65535 || slash == 0 || word.find(' ') != std::string_view::npos)
        return bad(carrier::master, std::string(word), "ADDRESS/PORT");
    return Master{std::string(word.substr(0, slash)), *port};
}

int read_patience(const Lookup &variable) {
    const auto text = variable(carrier::patience);
    return (text ? to_number(*text) : std::nullopt).value_or(default_patience);
}

} // namespace spider::spank
