// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/journal.h"

#include <array>
#include <utility>

namespace spider::broker {
namespace {

constexpr std::int64_t effects_kept = 10'000; // that have an end

// -- the form of the file; the version is SQLite's user_version

Result<void> make_tables(Database &database) {
    // AUTOINCREMENT: a number is not used again even when its row is gone.
    for (const auto *sql : {"CREATE TABLE IF NOT EXISTS numbers(n INTEGER PRIMARY KEY AUTOINCREMENT)",
                            "CREATE TABLE IF NOT EXISTS jobs(id TEXT PRIMARY KEY, sequence INTEGER NOT NULL,"
                            " ended INTEGER NOT NULL, record TEXT NOT NULL)"})
        if (auto made = database.run("make tables", sql); !made) return made;
    return {};
}

// Version 1 called a part unknown whose submission had no answer, and did not count GPUs.
void bring_up(Json &record) {
    auto plan = model::plan_from_json(model::at(record, "plan"));
    for (std::size_t i = 0; i < model::at(record, "parts").size(); ++i) {
        auto &part = record["parts"][i];
        if (model::text_at(part, "state") == "unknown") part["state"] = "submitting";
        std::size_t gpus = 0;
        if (plan && i < plan->parts.size())
            for (const auto &node : plan->parts[i].nodes)
                gpus += node.size() * static_cast<std::size_t>(plan->tp);
        part["gpus"] = gpus;
    }
}

Result<void> bring_records_up(Database &database) {
    std::vector<std::pair<std::string, std::string>> records;
    if (auto read = database.query("bring up", "SELECT id, record FROM jobs", {},
                                   [&](const Row &row) {
                                       records.emplace_back(row.text(0), row.text(1));
                                       return true;
                                   });
        !read)
        return read;
    for (const auto &[id, text] : records) {
        auto json = model::parse_json(text);
        if (!json) return std::move(json).error().within("journal " + database.path() + ": job " + id);
        bring_up(*json);
        const auto record = model::print_json(*json);
        if (auto put =
                database.run("bring up job " + id, "UPDATE jobs SET record=?2 WHERE id=?1", {id, record});
            !put)
            return put;
    }
    return {};
}

Result<void> add_effects(Database &database) {
    for (const auto *sql :
         {"CREATE TABLE effects(number INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL,"
          " attempt INTEGER NOT NULL, site TEXT NOT NULL, verb TEXT NOT NULL, begun REAL NOT NULL,"
          " ended REAL, outcome TEXT)",
          "CREATE INDEX effects_of_job ON effects(job)",
          "CREATE INDEX effects_open ON effects(number) WHERE outcome IS NULL",
          "CREATE TABLE requests(job TEXT PRIMARY KEY, body TEXT NOT NULL)",
          "CREATE INDEX jobs_ended ON jobs(ended, sequence)"})
        if (auto made = database.run("make tables", sql); !made) return made;
    return bring_records_up(database);
}

// Each brings a file from the version of its place to the next; a new file is version 0.
constexpr std::array steps{&make_tables, &add_effects};
constexpr int schema_version = static_cast<int>(steps.size());

Result<int> version_of(Database &database) {
    int version = 0;
    auto read = database.query("read", "PRAGMA user_version", {}, [&](const Row &row) {
        version = static_cast<int>(row.integer(0));
        return true;
    });
    if (!read) return std::move(read).error();
    if (version >= 0 && version <= schema_version) return version;
    return Error{Errc::invalid, "journal " + database.path() + ": written by a newer spiderflowd (schema " +
                                    std::to_string(version) +
                                    "); install that version or move the file away"};
}

Result<void> bring_to_our_version(Database &database) {
    return database.all_or_nothing("bring up", [&]() -> Result<void> {
        auto version = version_of(database);
        if (!version) return std::move(version).error();
        for (auto at = static_cast<std::size_t>(*version); at < steps.size(); ++at)
            if (auto taken = steps[at](database); !taken) return taken;
        const auto sql = "PRAGMA user_version=" + std::to_string(schema_version);
        return database.run("bring up", sql.c_str());
    });
}

} // namespace

Result<Journal> Journal::open(const std::string &path) {
    auto database = Database::open(path);
    if (!database) return std::move(database).error();
    auto version = version_of(*database);
    if (!version) return std::move(version).error();
    if (*version < schema_version)
        if (auto brought = bring_to_our_version(*database); !brought) return std::move(brought).error();
    return Journal(std::move(*database));
}

Result<std::int64_t> Journal::next_sequence() {
    std::int64_t number = 0;
    auto done = database_.all_or_nothing("next number", [&]() -> Result<void> {
        if (auto added = database_.run("next number", "INSERT INTO numbers DEFAULT VALUES"); !added)
            return added;
        number = database_.last_number();
        return database_.run("next number", "DELETE FROM numbers");
    });
    if (!done) return std::move(done).error();
    return number;
}

Result<std::int64_t> Journal::last_sequence() {
    std::int64_t number = 0;
    auto read = database_.query("last number", "SELECT seq FROM sqlite_sequence WHERE name='numbers'", {},
                                [&](const Row &row) {
                                    number = row.integer(0);
                                    return true;
                                });
    if (!read) return std::move(read).error();
    return number;
}

Result<void> Journal::raise_sequence(std::int64_t least) {
    if (least < 1) return {};
    return database_.all_or_nothing("raise the number", [&]() -> Result<void> {
        // A number below the highest so far changes nothing.
        if (auto added = database_.run("raise the number", "INSERT INTO numbers(n) VALUES(?1)", {least});
            !added)
            return added;
        return database_.run("raise the number", "DELETE FROM numbers");
    });
}

Result<void> Journal::save(const coalloc::Job &job) {
    const auto step = "save " + job.id;
    const bool ended = coalloc::final(job.state);
    const auto record = model::print_json(coalloc::to_json(job));
    const auto put = [&] {
        return database_.run(step,
                             "INSERT INTO jobs(id, sequence, ended, record) VALUES(?1, ?2, ?3, ?4) "
                             "ON CONFLICT(id) DO UPDATE SET ended=excluded.ended, record=excluded.record",
                             {job.id, job.sequence, std::int64_t{ended ? 1 : 0}, record});
    };
    if (!ended) return put();
    bool had_request = false;
    auto done = database_.all_or_nothing(step, [&]() -> Result<void> {
        if (auto saved = put(); !saved) return saved;
        if (auto gone = database_.run(step, "DELETE FROM requests WHERE job=?1", {job.id}); !gone)
            return gone;
        had_request = database_.changed() > 0;
        return database_.run(step, "DELETE FROM effects WHERE job=?1 AND outcome IS NULL", {job.id});
    });
    if (done && had_request) secrets_in_log_ = true;
    if (done) forget_secrets();
    return done;
}

Result<std::vector<coalloc::Job>> Journal::load(int ended) {
    std::vector<coalloc::Job> jobs;
    Result<void> understood;
    auto read = database_.query(
        "load",
        "SELECT id, record FROM jobs WHERE ended=0 OR sequence IN (SELECT sequence FROM jobs WHERE ended=1 "
        "ORDER BY sequence DESC LIMIT ?1) ORDER BY sequence",
        {std::int64_t{ended}}, [&](const Row &row) {
            auto json = model::parse_json(row.text(1));
            auto job = json ? coalloc::job_from_json(*json) : Result<coalloc::Job>(std::move(json).error());
            if (job)
                jobs.push_back(std::move(*job));
            else
                understood = std::move(job).error().within("journal " + path() + ": job " + row.text(0));
            return understood.ok();
        });
    if (!read) return std::move(read).error();
    if (!understood) return std::move(understood).error();
    return jobs;
}

Result<std::int64_t> Journal::begin(const Effect &effect) {
    auto added =
        database_.run(effect.verb + " of " + effect.job + " at " + effect.site,
                      "INSERT INTO effects(job, attempt, site, verb, begun) VALUES(?1, ?2, ?3, ?4, ?5)",
                      {effect.job, std::int64_t{effect.attempt}, effect.site, effect.verb, effect.begun});
    if (!added) return std::move(added).error();
    return database_.last_number();
}

Result<void> Journal::end(std::int64_t number, const std::string &outcome, Seconds at) {
    return database_.run("end of effect " + std::to_string(number),
                         "UPDATE effects SET outcome=?2, ended=?3 WHERE number=?1", {number, outcome, at});
}

Result<std::vector<Effect>> Journal::unfinished() {
    std::vector<Effect> effects;
    auto read = database_.query(
        "load effects",
        "SELECT number, job, attempt, site, verb, begun FROM effects WHERE outcome IS NULL ORDER BY number",
        {}, [&](const Row &row) {
            effects.push_back({row.integer(0), row.text(1), static_cast<int>(row.integer(2)), row.text(3),
                               row.text(4), row.real(5)});
            return true;
        });
    if (!read) return std::move(read).error();
    return effects;
}

Result<void> Journal::keep_request(const std::string &job, const std::string &body) {
    return database_.run("keep the request of " + job,
                         "INSERT INTO requests(job, body) VALUES(?1, ?2) "
                         "ON CONFLICT(job) DO UPDATE SET body=excluded.body",
                         {job, body});
}

Result<std::string> Journal::request(const std::string &job) {
    std::string body;
    bool kept = false;
    auto read = database_.query("read the request of " + job, "SELECT body FROM requests WHERE job=?1", {job},
                                [&](const Row &row) {
                                    body = row.text(0);
                                    kept = true;
                                    return false;
                                });
    if (!read) return std::move(read).error();
    if (!kept) return Error{Errc::not_found, "journal " + path() + ": no request of " + job + " is kept"};
    return body;
}

Result<void> Journal::prune(int ended) {
    const auto remove = [&](const char *sql, const std::vector<Value> &values = {}) {
        return database_.run("prune", sql, values);
    };
    auto done = database_.all_or_nothing("prune", [&]() -> Result<void> {
        auto gone = remove("DELETE FROM jobs WHERE ended=1 AND sequence NOT IN (SELECT sequence FROM jobs "
                           "WHERE ended=1 ORDER BY sequence DESC LIMIT ?1)",
                           {std::int64_t{ended}});
        if (gone) gone = remove("DELETE FROM requests WHERE job NOT IN (SELECT id FROM jobs WHERE ended=0)");
        if (gone && database_.changed() > 0) secrets_in_log_ = true;
        if (gone) gone = remove("DELETE FROM effects WHERE job NOT IN (SELECT id FROM jobs)");
        if (gone)
            gone = remove("DELETE FROM effects WHERE outcome IS NOT NULL AND "
                          "number <= (SELECT max(number) FROM effects) - ?1",
                          {effects_kept});
        return gone;
    });
    if (done) forget_secrets();
    return done;
}

// The log still holds what was deleted from the file. Tried with each call until nobody reads meanwhile.
void Journal::forget_secrets() {
    if (secrets_in_log_ && database_.empty_log()) secrets_in_log_ = false;
}

} // namespace spider::broker
