// SPDX-License-Identifier: GPL-3.0-or-later
// Lists and matrices that people write.
#include "probe/import_formats.h"

#include "util/text.h"
#include "util/toml_reader.h"

#include <algorithm>

namespace spider::probe {

namespace {

Error wrong(const std::string &file, std::size_t line, const std::string &what) {
    return {Errc::invalid, file + ":" + std::to_string(line) + ": " + what};
}

std::vector<std::string> cells_of(std::string_view line) {
    auto cells = util::split(line, ',');
    for (auto &cell : cells)
        cell = std::string(util::trim(cell));
    return cells;
}

// What a table of either form has read so far.
class Csv {
  public:
    Csv(const std::string &file, const ImportOptions &options) : file_(file), options_(options) {}

    Result<void> line(std::string_view text) {
        ++number_;
        const auto words = util::trim(text);
        if (words.starts_with('#')) return {};
        if (words.empty()) {
            if (matrix()) columns_.clear(); // another matrix may follow
            return {};
        }
        const auto cells = cells_of(words);
        if (columns_.empty()) return header(cells);
        return matrix() ? matrix_row(cells) : list_row(cells);
    }
    Imported take() { return {std::move(samples_), {}}; }

  private:
    [[nodiscard]] bool matrix() const {
        return !columns_.empty() && (columns_.front() == "gbps" || columns_.front() == "rtt_ms");
    }
    [[nodiscard]] Error fail(const std::string &what) const { return wrong(file_, number_, what); }

    Result<void> header(const std::vector<std::string> &cells) {
        columns_ = cells;
        if (matrix()) return {};
        for (const auto &cell : cells)
            if (const std::vector<std::string> known{"from", "to", "gbps", "rtt_ms", "at"};
                std::find(known.begin(), known.end(), cell) == known.end())
                return fail("column '" + cell +
                            "': expected from, to, gbps, rtt_ms and at, or a matrix (gbps,SITE,SITE,…)");
        for (const auto *needed : {"from", "to"})
            if (std::find(cells.begin(), cells.end(), needed) == cells.end())
                return fail(std::string("column ") + needed + " is missing");
        return {};
    }

    Result<void> value(const std::string &cell, const std::string &column, Sample &sample) const {
        if (cell.empty() || cell == "-") return {};
        const auto number = util::to_double(cell);
        if (!number) return fail(column + ": '" + cell + "' is not a number");
        auto good = measured(*number, column);
        if (!good) return fail(good.error().what);
        (column == "gbps" ? sample.gbps : sample.rtt_ms) = *good;
        return {};
    }

    Result<void> keep(const Sample &sample) {
        if (sample.gbps <= 0 && sample.rtt_ms <= 0) return {}; // not measured
        if (sample.at <= 0) return fail(no_time);
        if (auto good = plausible(sample); !good) return fail(good.error().what);
        samples_.push_back(sample);
        return {};
    }

    Result<void> list_row(const std::vector<std::string> &cells) {
        if (cells.size() != columns_.size())
            return fail(std::to_string(cells.size()) + " cells; the header has " +
                        std::to_string(columns_.size()));
        Sample sample{.source = Source::file, .at = options_.at};
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const auto &column = columns_[i];
            if (column == "from") sample.from = cells[i];
            if (column == "to") sample.to = cells[i];
            if (column == "gbps" || column == "rtt_ms")
                if (auto read = value(cells[i], column, sample); !read) return read;
            if (column == "at" && !cells[i].empty()) {
                const auto at = time_of(cells[i]);
                if (!at)
                    return fail("at: '" + cells[i] +
                                "': expected YYYY-MM-DDTHH:MM:SSZ or seconds since the epoch");
                sample.at = *at;
            }
        }
        if (sample.from.empty() || sample.to.empty()) return fail("from and to must name sites");
        return keep(sample);
    }

    // Row: from; column: to.
    Result<void> matrix_row(const std::vector<std::string> &cells) {
        if (cells.size() != columns_.size())
            return fail(std::to_string(cells.size()) + " cells; the header has " +
                        std::to_string(columns_.size()));
        for (std::size_t i = 1; i < cells.size(); ++i) {
            if (cells[0] == columns_[i]) continue; // the diagonal
            Sample sample{.from = cells[0], .to = columns_[i], .source = Source::file, .at = options_.at};
            if (auto read = value(cells[i], columns_[0], sample); !read) return read;
            if (auto kept = keep(sample); !kept) return kept;
        }
        return {};
    }

    const std::string &file_;
    const ImportOptions &options_;
    std::size_t number_ = 0; // of the line
    std::vector<std::string> columns_;
    std::vector<Sample> samples_;
};

// [[link]], with the keys of spiderflow.conf(5) and when it was measured.
struct Entry {
    std::string from, to, at;
    double bandwidth_gbps = 0, rtt_ms = 0;
    bool both = false;
};

const std::vector<util::Key<Entry>> entry_keys{
    {"from", util::text(&Entry::from)},
    {"to", util::text(&Entry::to)},
    {"bandwidth_gbps", util::positive(&Entry::bandwidth_gbps)},
    {"rtt_ms", util::positive(&Entry::rtt_ms)},
    {"both", util::boolean(&Entry::both)},
    {"at", util::text(&Entry::at)},
};

} // namespace

Result<Imported> read_csv(const std::string &file, std::string_view text, const ImportOptions &options) {
    Csv csv(file, options);
    for (const auto &line : util::split(text, '\n'))
        if (auto read = csv.line(line); !read) return std::move(read).error();
    return csv.take();
}

Result<Imported> read_toml(const std::string &file, std::string_view text, const ImportOptions &options) {
    const auto parsed = toml::parse(text, file);
    if (!parsed) {
        const auto &begin = parsed.error().source().begin;
        return wrong(file, begin.line, std::string(parsed.error().description()));
    }
    const util::Where where(file);
    const auto &table = parsed.table();
    if (auto known = where.only(table, {"link"}); !known) return std::move(known).error();
    const auto *links = table.get("link");
    if (links == nullptr || !links->is_array_of_tables()) return Error{Errc::invalid, file + ": no [[link]]"};
    Imported found;
    for (const auto &item : *links->as_array()) {
        Entry entry;
        if (auto read = util::read_keys(entry, item, entry_keys, where, "[[link]]"); !read)
            return std::move(read).error();
        const auto &keys = *item.as_table();
        if (entry.from.empty() || entry.to.empty())
            return where.missing(keys, "from", "from and to, names of sites");
        Sample sample{.from = entry.from, .to = entry.to, .source = Source::file, .at = options.at};
        sample.gbps = entry.bandwidth_gbps, sample.rtt_ms = entry.rtt_ms;
        if (!entry.at.empty()) {
            const auto at = time_of(entry.at);
            if (!at) return where.missing(keys, "at", "\"YYYY-MM-DDTHH:MM:SSZ\"");
            sample.at = *at;
        }
        if (sample.at <= 0)
            return where.missing(keys, "at",
                                 "when it was measured, \"YYYY-MM-DDTHH:MM:SSZ\"; or give --at TIME");
        if (auto good = plausible(sample); !good)
            return Error{Errc::invalid, where.place(item) + good.error().what};
        found.samples.push_back(sample);
        std::swap(sample.from, sample.to);
        if (entry.both) found.samples.push_back(sample);
    }
    return found;
}

} // namespace spider::probe
