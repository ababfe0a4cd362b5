// SPDX-License-Identifier: GPL-3.0-or-later
// A web under change: the quick estimate of its iteration that the moves of a search are judged by, kept up
// to date with the cells that a move touches. tau stands for the exact pipeline (see pipeline.h); price.h
// gives the exact answer.
#pragma once

#include "plan/dealer.h"
#include "plan/price.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace spider::plan {

using Change = std::pair<int, int>; // cell, its new site

// Boundaries between two sites, by pair: too large a table for each state to have its own. All 0 while no
// state lives.
using Crossings = std::vector<std::uint16_t>;

class WebState {
    static constexpr double cannot_run = 1e12;

  public:
    // All are borrowed; one state at a time uses the table.
    WebState(const Problem &problem, const Shape &shape, Crossings &crossings);
    ~WebState();
    WebState(const WebState &) = delete;
    WebState &operator=(const WebState &) = delete;

    // All cells anew; layers by speed and memory, or as given.
    void reset(std::vector<int> cells, std::vector<int> layers = {});
    // Each cell at most once. Beyond `limit` the value is only known to be above it, and undo() must follow.
    void change(std::span<const Change> changes, double limit = never);
    // Each site that must take part and does not gets the cell where it costs least. False: there is no such
    // cell.
    bool include_required();
    void move_layer(int from, int to); // a stage keeps at least one: the caller sees to it
    void undo();                       // the last change() or move_layer(); once

    [[nodiscard]] const Web &web() const { return web_; }
    [[nodiscard]] Seconds seconds() const { return now_.seconds; } // `never`: it cannot run
    // What a move should lower: the seconds, and a little of every pipeline and ring, so that plateaus have a
    // slope.
    [[nodiscard]] double value() const { return now_.value; }
    // The same for choosing one: a web that cannot run comes after every one that can.
    [[nodiscard]] double rank() const { return now_.seconds < never ? now_.value : now_.value + cannot_run; }
    [[nodiscard]] int worst_group() const { return now_.worst_group; } // whose pipeline is slowest
    [[nodiscard]] int worst_stage() const { return now_.worst_stage; } // whose all-reduce ends last
    [[nodiscard]] int used(int site) const { return used_[static_cast<std::size_t>(site)]; } // cells
    [[nodiscard]] bool has_room(int site) const;
    [[nodiscard]] int cell_of(int site) const;                // one of its cells; -1: it has none
    [[nodiscard]] std::int64_t work() const { return work_; } // steps done so far, for budgets

  private:
    struct Estimate {
        std::vector<Seconds> tau, pass;  // per group
        std::vector<Seconds> head_start; // per group and stage: how much earlier than stage 0 it ends
        std::vector<Seconds> ring, ring_latency, local; // per stage
        std::vector<std::uint64_t> ring_sites;          // a hash of the set
        std::vector<int> gaps;                          // links that are missing, per group
        std::vector<int> holes;                         // 1: no ring is closed, per stage
        int tied_gaps = 0;
        Seconds tied = 0;
        Seconds seconds = never;
        double value = never;
        int worst_group = 0, worst_stage = 0; // which decide the seconds
    };

    void leave();
    void place(int cell, int site);
    void cross(int a, int b, int by); // flows between two sites; by = +1 or -1
    bool deal_layers();               // by speed and memory; true when they changed
    void time_stages();
    void estimate_all();
    void estimate_changed(std::span<const Change> changes, double limit);
    void estimate_group(int group);
    void estimate_ring(int stage);
    void estimate_tied();
    void sum();
    void cap_depths();
    [[nodiscard]] Seconds tau_of_scratch();
    [[nodiscard]] bool shares_links(int cell) const;
    [[nodiscard]] std::size_t pair_index(int a, int b) const;
    [[nodiscard]] std::size_t type_index(int stage, int site) const;
    [[nodiscard]] int first_layer(int stage) const;

    const Problem &problem_;
    const Workload &workload_;
    int batches_;
    int rule_;
    bool blocking_;
    LayerDealer dealer_;
    Crossings &crossing_;
    Web web_;
    bool sharing_ = false; // some site has room for two cells: only then do two boundaries cross one pair
    std::vector<std::size_t> gpu_; // type, of each site
    std::vector<int> used_;
    std::vector<int> last_cell_; // of each site, where it was put last
    std::vector<Times> times_;   // per stage and GPU type
    std::vector<int> types_;     // cells, per stage and GPU type
    std::vector<int> caps_;      // depth, per stage
    std::vector<int> falling_;   // the depths where the rule is not `fitted`
    bool endless_ = false;       // no cap matters
    int overfull_ = 0;           // stages that do not hold one micro-batch
    Estimate now_, before_;
    std::vector<Change> undo_cells_;
    std::vector<int> undo_layers_;
    std::int64_t work_ = 0;
    std::vector<int> scratch_sites_;
    std::vector<Seconds> ends_; // per stage, the latest of all groups
    Pipeline scratch_;
};

} // namespace spider::plan
