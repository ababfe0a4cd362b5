// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/settings.h"

#include "broker/toml_reader.h"
#include "model/json.h"
#include "util/fd.h"

#include <algorithm>

namespace spider::broker {
namespace {

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

const std::vector<Key<Config>> broker_keys{
    {"home", text(&Config::home)},
    {"socket", path(&Config::socket)},
    {"journal", path(&Config::journal)},
    {"operators", texts(&Config::operators)},
    {"patience", seconds(&Config::patience, 1)},
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
    {"workdir", path(&Site::workdir)},
    {"home", path(&Site::home)},
    {"path", text(&Site::path)},
    {"gpu", text(&Site::gpu)},
    {"routable", boolean(&Site::routable)},
    {"state", read_state},
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

Result<Config> read_table(const toml::table &file, const Where &where) {
    static const std::vector<std::string_view> sections{"broker", "site", "link"};
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
    if (config.sites.empty()) return Error{Errc::invalid, where.file() + ": no [[site]]"};
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
