// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/agent_config.h"

#include "util/toml_reader.h"

#include <algorithm>

namespace spider::probe {
namespace {

using namespace util; // the readers of TOML keys
using Config = AgentConfig;

Result<void> read_listen(Config &config, const toml::node &node, const Where &where) {
    const auto text = node.value_exact<std::string>();
    if (!text || !parse_host_port(*text))
        return where.wrong(node, "an address and a port in quotes: \"[::]:7711\" or \"192.0.2.7:7711\"");
    config.listen = *text;
    return {};
}

Result<void> read_allow(Config &config, const toml::node &node, const Where &where) {
    if (auto read = texts(&Config::allow)(config, node, where); !read) return read;
    for (std::size_t i = 0; i < config.allow.size(); ++i) {
        const auto network = Network::parse(config.allow[i]);
        if (!network)
            return where.wrong((*node.as_array())[i],
                               "an address or a network in quotes: \"192.0.2.7\" or \"2001:db8::/48\"");
        config.networks.push_back(*network);
    }
    return {};
}

const std::vector<util::Key<Config>> keys{
    {"site", text(&Config::site)},
    {"listen", read_listen},
    {"key_file", path(&Config::key_file)},
    {"allow", read_allow},
    {"most_gbps", not_negative(&Config::most_gbps)},
    {"most_gbytes", positive(&Config::most_gbytes)},
    {"daily_gbytes", positive(&Config::daily_gbytes)},
    {"streams", whole(&Config::streams, 1, most_streams)},
};

bool good_name(const std::string &name) {
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    });
}

Result<Config> read_table(const toml::table &file, const Where &where) {
    Config config;
    if (auto read = read_keys(config, file, keys, where, "the file"); !read) return std::move(read).error();
    if (!good_name(config.site)) return where.missing(file, "site", "letters, digits, '_', '.' and '-'");
    if (config.networks.empty())
        return where.missing(file, "allow", "the addresses of the other agents and of the broker");
    if (config.key_file.empty())
        return where.missing(file, "key_file", "the path of a key: spiderflow-probe --make-key makes one");
    auto key = read_key(config.key_file);
    if (!key)
        return Error{key.error().code, where.place(*file.get("key_file")) + "key_file: " + key.error().what};
    config.key = std::move(*key);
    return config;
}

} // namespace

bool AgentConfig::admits(const Address &address) const {
    return std::any_of(networks.begin(), networks.end(),
                       [&](const Network &network) { return network.contains(address); });
}

Result<AgentConfig> read_agent_config(const std::string &path) {
    auto text = util::read_file(path, 1u << 20);
    if (!text) return std::move(text).error();
    const auto parsed = toml::parse(*text, path);
    if (!parsed) {
        const auto &begin = parsed.error().source().begin;
        return Error{Errc::invalid, path + ":" + std::to_string(begin.line) + ":" +
                                        std::to_string(begin.column) + ": " +
                                        std::string(parsed.error().description())};
    }
    return read_table(parsed.table(), Where(path));
}

} // namespace spider::probe
