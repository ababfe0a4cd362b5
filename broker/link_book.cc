// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/link_book.h"

namespace spider::broker {
namespace {

constexpr int schema_version = 1;

Result<void> make_tables(Database &database) {
    return database.all_or_nothing("make tables", [&]() -> Result<void> {
        for (const auto *sql :
             {"CREATE TABLE IF NOT EXISTS samples(number INTEGER PRIMARY KEY,"
              " at REAL NOT NULL, record TEXT NOT NULL)",
              "CREATE INDEX IF NOT EXISTS samples_at ON samples(at)", "PRAGMA user_version=1"})
            if (auto made = database.run("make tables", sql); !made) return made;
        return {};
    });
}

} // namespace

Result<LinkBook> LinkBook::open(const std::string &path) {
    auto database = Database::open(path, "link history");
    if (!database) return std::move(database).error();
    std::int64_t version = 0;
    auto read = database->query("read", "PRAGMA user_version", {}, [&](const Row &row) {
        version = row.integer(0);
        return true;
    });
    if (!read) return std::move(read).error();
    if (version < 0 || version > schema_version)
        return Error{Errc::invalid, "link history " + path + ": written by a newer spiderflowd (schema " +
                                        std::to_string(version) +
                                        "); install that version or move the file away"};
    if (version < schema_version)
        if (auto made = make_tables(*database); !made) return std::move(made).error();
    return LinkBook(std::move(*database));
}

Result<void> LinkBook::add(const std::vector<probe::Sample> &samples) {
    return database_.all_or_nothing("save", [&]() -> Result<void> {
        for (const auto &sample : samples) {
            const auto record = model::print_json(to_json(sample));
            if (auto put = database_.run("save", "INSERT INTO samples(at, record) VALUES(?1, ?2)",
                                         {sample.at, std::string_view(record)});
                !put)
                return put;
        }
        return {};
    });
}

Result<std::vector<probe::Sample>> LinkBook::load(Seconds since) {
    std::vector<probe::Sample> samples;
    auto read = database_.query("load", "SELECT record FROM samples WHERE at >= ?1 ORDER BY at, number",
                                {since}, [&](const Row &row) {
                                    const auto json = model::parse_json(row.text(0));
                                    auto sample = json ? probe::sample_from_json(*json) : json.error();
                                    if (sample) samples.push_back(std::move(*sample));
                                    return true;
                                });
    if (!read) return std::move(read).error();
    return samples;
}

Result<void> LinkBook::forget(Seconds before) {
    return database_.run("forget", "DELETE FROM samples WHERE at < ?1", {before});
}

} // namespace spider::broker
