// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/settings.h"

#include "model/json.h"
#include "probe/order.h"
#include "util/fd.h"
#include "util/hostlist.h"
#include "util/text.h"
#include "util/toml_reader.h"

#include <algorithm>
#include <cctype>

namespace spider::broker {
namespace {

using namespace util; // the readers of TOML keys
using Site = SiteConfig;
using Link = LinkConfig;

Result<void> read_ports(Config &config, const toml::node &node, const Where &where) {
    const auto *pair = node.as_array();
    const auto port = [&](std::size_t at) {
        return pair != nullptr && pair->size() == 2 ? (*pair)[at].value_or<std::int64_t>(-1) : -1;
    };
    const auto low = port(0), high = port(1);
    if (low < 1024 || high > 65535 || low > high)
        return where.wrong(node, "two ports between 1024 and 65535, the lower first");
    if (high >= 32768 && low <= 60999)
        return where.wrong(node, "ports outside the ephemeral range 32768-60999");
    config.port_low = static_cast<int>(low);
    config.port_high = static_cast<int>(high);
    return {};
}

Result<void> read_state(Site &site, const toml::node &node, const Where &where) {
    const auto text = node.value<std::string>();
    for (const auto state : {SiteState::active, SiteState::drain, SiteState::inactive})
        if (text && *text == model::name(state)) {
            site.state = state;
            return {};
        }
    return where.wrong(node, "\"ACTIVE\", \"DRAIN\" or \"INACTIVE\"");
}

bool only_of(std::string_view text, std::string_view others) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
        return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
    });
}

Result<void> read_forward_options(Config &config, const toml::node &node, const Where &where) {
    if (auto read = texts(&Config::forward_options)(config, node, where); !read) return read;
    for (std::size_t i = 0; i < config.forward_options.size(); ++i) {
        const std::string_view text = config.forward_options[i];
        const auto colon = text.find(':');
        if (colon == std::string_view::npos || !only_of(text.substr(0, colon), "_-.") ||
            !only_of(text.substr(colon + 1), "_-."))
            return where.wrong((*node.as_array())[i], "PLUGIN:OPTION, as in \"pyxis:container-image\"");
    }
    return {};
}

Result<void> read_workdir(Site &site, const toml::node &node, const Where &where) {
    if (auto read = path(&Site::workdir)(site, node, where); !read) return read;
    for (auto at = site.workdir.find('%'); at != std::string::npos; at = site.workdir.find('%', at + 2))
        if (at + 1 == site.workdir.size() || (site.workdir[at + 1] != 'u' && site.workdir[at + 1] != 'j'))
            return where.wrong(node, "an absolute path in quotes, in it no '%' but %u and %j");
    return {};
}

// "ib0", "=eth0", "^lo,docker0": NCCL_SOCKET_IFNAME.
Result<void> read_interface(Site &site, const toml::node &node, const Where &where) {
    const auto expected =
        "interfaces as NCCL_SOCKET_IFNAME names them: \"ib0\", \"=eth0,eth1\", \"^lo,docker\"";
    if (auto read = text(&Site::interface)(site, node, where); !read) return where.wrong(node, expected);
    if (site.interface.empty()) return {};
    std::string_view names = site.interface;
    for (const char sign : {'^', '='})
        if (names.starts_with(sign)) names.remove_prefix(1);
    if (names.empty()) return where.wrong(node, expected);
    for (const auto &name : util::split(names, ','))
        if (name.size() > 15 || !only_of(name, "_-.@:")) return where.wrong(node, expected);
    return {};
}

Result<void> read_agent(Site &site, const toml::node &node, const Where &where) {
    const auto expected = "an agent's address as \"host:port\" or \"[v6]:port\"";
    if (auto read = text(&Site::probe)(site, node, where); !read) return where.wrong(node, expected);
    if (site.probe.empty()) return {};
    const auto colon = site.probe.rfind(':');
    const auto port = colon == std::string::npos ? std::nullopt : util::to_int(site.probe.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535 || !only_of(site.probe.substr(0, colon), "-._:[]"))
        return where.wrong(node, expected);
    return {};
}

// A test is short: sites refuse what keeps their links busy.
Result<void> read_phase(ProbeConfig &probe, const toml::node &node, const Where &where) {
    auto read = seconds(&ProbeConfig::seconds, 1)(probe, node, where);
    if (read && probe.seconds > 30) return where.wrong(node, "a number of seconds between 1 and 30");
    return read;
}

// sbatch waits for the plan.
Result<void> read_before_plan(ProbeConfig &probe, const toml::node &node, const Where &where) {
    auto read = seconds(&ProbeConfig::before_plan, 0)(probe, node, where);
    if (read && probe.before_plan > 6) return where.wrong(node, "a number of seconds, 6 at most");
    return read;
}

// { "n[1-4]" = "10.1.0.[11-14]" }: two host lists of one length.
Result<void> read_addresses(Site &site, const toml::node &node, const Where &where) {
    const auto *table = node.as_table();
    if (table == nullptr) return where.wrong(node, "a table: { \"n[1-4]\" = \"10.1.0.[11-14]\" }");
    for (const auto &[key, item] : *table) {
        const auto text = item.value_exact<std::string>();
        if (!text) return where.wrong(item, "a text in quotes");
        const auto nodes = util::expand_hostlist(key.str());
        const auto addresses = util::expand_hostlist(*text);
        for (const auto *list : {&nodes, &addresses})
            if (!*list) return where.wrong(item, "two host lists; " + list->error().what);
        if (nodes->empty() || nodes->size() != addresses->size())
            return where.wrong(item, "as many addresses as nodes: " + std::string(key.str()) + " are " +
                                         std::to_string(nodes->size()) + ", " + *text + " are " +
                                         std::to_string(addresses->size()));
        for (std::size_t i = 0; i < nodes->size(); ++i) {
            if (!only_of((*addresses)[i], ".:-_")) return where.wrong(item, "host names or IP addresses");
            if (!site.addresses.emplace((*nodes)[i], (*addresses)[i]).second)
                return where.wrong(item, "each node once: " + (*nodes)[i] + " stands twice");
        }
    }
    return {};
}

const std::vector<Key<Config>> broker_keys{
    {"home", text(&Config::home)},
    {"socket", path(&Config::socket)},
    {"journal", path(&Config::journal)},
    {"link_history", path(&Config::link_history)},
    {"operators", texts(&Config::operators)},
    {"forward_options", read_forward_options},
    {"patience", seconds(&Config::patience, 1)},
    {"margin", seconds(&Config::margin, 0)},
    {"backoff", seconds(&Config::backoff, 0.1)},
    {"backoff_most", seconds(&Config::backoff_most, 1)},
    {"lost_after", seconds(&Config::lost_after, 1)},
    {"retry_delay", seconds(&Config::retry_delay, 0)},
    {"keep_ended", whole(&Config::keep_ended, 1, 1'000'000)},
    {"plan_ttl", seconds(&Config::plan_ttl, 1)},
    {"poll_nodes", seconds(&Config::poll_nodes, 1)},
    {"poll_jobs", seconds(&Config::poll_jobs, 0.1)},
    {"master_ports", read_ports},
};

const std::vector<Key<Site>> site_keys{
    {"name", text(&Site::name)},
    {"url", text(&Site::url)},
    {"token_file", path(&Site::token_file)},
    {"token_user", text(&Site::token_user)},
    {"partition", text(&Site::partition)},
    {"account", text(&Site::account)},
    {"partitions", map(&Site::partitions)},
    {"accounts", map(&Site::accounts)},
    {"users", map(&Site::users)},
    {"workdir", read_workdir},
    {"home", path(&Site::home)},
    {"path", text(&Site::path)},
    {"gpu", text(&Site::gpu)},
    {"addresses", read_addresses},
    {"interface", read_interface},
    {"max_script", whole(&Site::max_script, 4096, largest_script)},
    {"routable", boolean(&Site::routable)},
    {"state", read_state},
    {"probe", read_agent},
};

const std::vector<Key<ProbeConfig>> probe_keys{
    {"key_file", path(&ProbeConfig::key_file)},
    {"interval", seconds(&ProbeConfig::interval, 1)},
    {"max_age", seconds(&ProbeConfig::max_age, 1)},
    {"seconds", read_phase},
    {"streams", whole(&ProbeConfig::streams, 1, probe::most_streams)},
    {"pace_gbps", not_negative(&ProbeConfig::pace_gbps)},
    {"most_gbytes", positive(&ProbeConfig::most_gbytes)},
    {"daily_gbytes", positive(&ProbeConfig::daily_gbytes)},
    {"before_plan", read_before_plan},
};

const std::vector<Key<Link>> link_keys{
    {"from", text(&Link::from)},
    {"to", text(&Link::to)},
    {"bandwidth_gbps", positive(&Link::bandwidth_gbps)},
    {"rtt_ms", not_negative(&Link::rtt_ms)},
    {"both", boolean(&Link::both)},
};

bool good_name(const std::string &name) {
    return !name.empty() && name.size() <= 64 &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
               std::string::npos;
}

Result<void> check_site(const Config &config, const Site &site, const toml::table &table,
                        const Where &where) {
    if (!good_name(site.name)) return where.missing(table, "name", "letters, digits, '_', '.' and '-'");
    if (config.site(site.name) != nullptr)
        return where.missing(table, "name", "a name of its own: '" + site.name + "' stands twice");
    const auto starts = [&](std::string_view scheme) { return site.url.rfind(scheme, 0) == 0; };
    if (!starts("http://") && !starts("https://") && !starts("unix:/"))
        return where.missing(table, "url", "\"http://host:port\", \"https://host:port\" or \"unix:/path\"");
    if (site.token_file.empty())
        return where.missing(table, "token_file", "the path of a file with a Slurm JWT");
    if (auto token = util::read_secret(site.token_file); !token)
        return Error{token.error().code,
                     where.place(*table.get("token_file")) + "token_file: " + token.error().what};
    return {};
}

Result<void> check_link(const Config &config, const Link &link, const toml::table &table,
                        const Where &where) {
    for (const auto &[key, name] : {std::pair{"from", link.from}, std::pair{"to", link.to}})
        if (config.site(name) == nullptr)
            return where.missing(table, key, "the name of a [[site]] of this file");
    if (link.from == link.to) return where.missing(table, "to", "another site than 'from'");
    if (link.bandwidth_gbps <= 0) return where.missing(table, "bandwidth_gbps", "a number above 0");
    return {};
}

Result<void> read_probe(ProbeConfig &probe, const toml::node &node, const Where &where) {
    if (auto read = read_keys(probe, node, probe_keys, where, "[probe]"); !read) return read;
    if (probe.key_file.empty()) return {};
    if (auto key = util::read_secret(probe.key_file); !key)
        return Error{key.error().code,
                     where.place(*node.as_table()->get("key_file")) + "key_file: " + key.error().what};
    return {};
}

Result<Config> read_table(const toml::table &file, const Where &where) {
    static const std::vector<std::string_view> sections{"broker", "site", "link", "probe"};
    if (auto known = where.only(file, sections); !known) return std::move(known).error();
    Config config;
    if (const auto *broker = file.get("broker")) {
        if (auto read = read_keys(config, *broker, broker_keys, where, "[broker]"); !read)
            return std::move(read).error();
    }
    const auto each = [&](std::string_view section, auto keys, auto &list, auto check) -> Result<void> {
        const auto *node = file.get(section);
        if (node == nullptr) return {};
        if (!node->is_array_of_tables())
            return where.error(*node, section, "written as [[" + std::string(section) + "]]");
        for (const auto &item : *node->as_array()) {
            typename std::decay_t<decltype(list)>::value_type value;
            if (auto read = read_keys(value, item, keys, where, "[[" + std::string(section) + "]]"); !read)
                return read;
            if (auto good = check(config, value, *item.as_table(), where); !good) return good;
            list.push_back(std::move(value));
        }
        return {};
    };
    if (auto read = each("site", site_keys, config.sites, check_site); !read) return std::move(read).error();
    if (auto read = each("link", link_keys, config.links, check_link); !read) return std::move(read).error();
    if (const auto *probe = file.get("probe"))
        if (auto read = read_probe(config.probe, *probe, where); !read) return std::move(read).error();
    if (config.sites.empty()) return Error{Errc::invalid, where.file() + ": no [[site]]"};
    if (config.link_history.empty())
        config.link_history = config.journal.substr(0, config.journal.rfind('/')) + "/links.db";
    if (config.site(config.home) == nullptr)
        return Error{Errc::invalid,
                     where.file() + ": [broker] home: '" + config.home + "' is not the name of a [[site]]"};
    return config;
}

} // namespace

const SiteConfig *Config::site(const std::string &name) const {
    const auto found =
        std::find_if(sites.begin(), sites.end(), [&](const auto &site) { return site.name == name; });
    return found == sites.end() ? nullptr : &*found;
}

std::string mapped(const std::map<std::string, std::string> &map, const std::string &name) {
    const auto found = map.find(name);
    return found == map.end() ? name : found->second;
}

Result<Config> read_config(const std::string &path) {
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

} // namespace spider::broker
