// SPDX-License-Identifier: GPL-3.0-or-later
// The broker: holds the federated jobs, asks coalloc what comes next and does it. Everything here runs in one
// thread; nothing here blocks. broker.cc: life cycle; planning.cc: plans; placing.cc: parts come to their
// sites; parts.cc: what is done to them there; sweep.cc: what nobody wants any more; views.cc.
#pragma once

#include "broker/journal.h"
#include "broker/links.h"
#include "broker/metrics.h"
#include "broker/settings.h"
#include "broker/sites.h"
#include "coalloc/decide.h"
#include "wire/messages.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spider::broker {

struct Caller {
    std::uint32_t uid = 0;
    std::string name;
    bool is_operator = false;
};

using Respond = std::function<void(Result<Json>)>; // called exactly once, in the broker's thread

class Broker {
  public:
    Broker(Config config, Journal journal, Links links, slurm::Http &http, const util::Clock &clock);

    Result<void> resume(); // takes up what the journal holds
    void reconfigure(Config config);
    void tick(); // what is due now
    [[nodiscard]] std::string status_line() const;
    [[nodiscard]] const Config &config() const { return config_; }

    void plan(const Caller &caller, const wire::PlanRequest &request, Respond respond);
    void place(const Caller &caller, const std::string &id, wire::PlaceRequest request, Respond respond);
    [[nodiscard]] Result<Json> drop(const Caller &caller, const std::string &id);
    [[nodiscard]] Result<Json> cancel(const Caller &caller, const std::string &id);
    [[nodiscard]] Result<Json> show(const Caller &caller, const std::string &id) const;
    [[nodiscard]] Result<Json> list(const Caller &caller, bool all) const;
    [[nodiscard]] Result<Json> sites() const;
    [[nodiscard]] Json links() const;
    [[nodiscard]] Result<Json> import_links(const Caller &caller, const wire::ImportRequest &request);
    void measure_link(const Caller &caller, const wire::MeasureRequest &request, Respond respond);
    [[nodiscard]] Metrics metrics() const;
    [[nodiscard]] Result<void> ready() const; // an error: it takes no new jobs now

  private:
    using Job = coalloc::Job;
    struct Placement { // sbatch waits for the answer
        Respond respond;
        std::string trouble; // of the first site that refused
        Seconds until = 0;   // monotonic; then the answer goes out whatever the state
    };
    struct Acted {         // an act that the site answered
        Seconds at = -1e9; // monotonic
        Seconds pause = 0; // before it is asked for again
    };
    using Took = std::function<void(Job &job, Result<slurm::Reply> reply)>;

    // broker.cc
    Job *find(const std::string &id);
    Result<Job *> own(const Caller &caller, const std::string &id);
    bool step(Job &job, const coalloc::Decision &decision);
    void advance(Job &job);
    void advance_all();
    [[nodiscard]] coalloc::Outlook outlook(const Job &job) const;
    void save(const Job &job);
    Error journal_failed(Error error);
    void mend_journal();
    void forget_old();
    // planning.cc
    Result<void> may_submit(const Caller &caller) const;
    Result<Json> make_plan(const Caller &caller, const wire::PlanRequest &request);
    Result<Job> planned_job(const Caller &caller, const wire::PlanRequest &request);
    [[nodiscard]] Result<void> one_gpu_per_task(const wire::PlanRequest &request) const;
    Result<Plan> search(const JobSpec &spec, const std::string &partition,
                        const std::vector<std::string> &left_out);
    [[nodiscard]] Reserved reserved() const;
    [[nodiscard]] std::vector<std::string> candidates(const JobSpec &spec) const;
    [[nodiscard]] bool has_room(const Part &part, int tp, const std::string &partition) const;
    void make_parts(Job &job);
    void plan_again(Job &job);
    // placing.cc
    void check_home(Job &job, Result<slurm::Reply> reply);
    Result<slurm::Call> submission_call(Job &job, std::size_t index);
    void submit_parts(Job &job);
    void submit_part(Job &job, std::size_t index, const slurm::Call &call);
    void take_submitted(Job &job, std::size_t index, Result<slurm::Reply> reply);
    void read_back(Job &job, std::size_t index);
    void take_read_back(Job &job, std::size_t index, Result<slurm::Reply> reply);
    void refused(Job &job, std::size_t index, const std::string &why);
    void settle(Job &job);
    void answer_placements();
    // parts.cc
    void follow(Job &job);
    void take_view(Job &job, std::size_t index, Seconds asked_at, Result<slurm::Reply> reply);
    void perform(Job &job);
    void perform(Job &job, const coalloc::Act &act);
    void take_answer(Job &job, const coalloc::Act &act, Result<slurm::Reply> reply);
    [[nodiscard]] slurm::Call call_for(const Job &job, const coalloc::Act &act, const slurm::Api &api) const;
    [[nodiscard]] bool knows_master(const Job &job) const;
    Result<std::string> word_for(const Job &job);
    [[nodiscard]] std::string first_nodes(const Job &job) const;
    void take_seen(const Job &job, const slurm::JobView &view);
    void ask_part(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                  Seconds timeout, Took took);
    std::int64_t begin_effect(const Effect &effect);
    void end_effect(std::int64_t number, const Result<slurm::Reply> &reply);
    void ask_effect(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                    Seconds timeout, Took took);
    // sweep.cc
    void sweep();
    void sweep_site(const std::string &site, Seconds began, const std::vector<slurm::JobView> &jobs);
    void cancel_stray(const Job &job, int attempt, const std::string &site, const slurm::JobView &view);
    void find_submitted(const std::string &site, Seconds began, const std::vector<slurm::JobView> &jobs);

    Config config_;
    Journal journal_;
    const util::Clock &clock_;
    Sites sites_;
    Links links_;
    coalloc::Policy policy_;
    std::map<std::string, Job> jobs_;
    std::vector<const Job *> live_; // of jobs_, that have not ended
    std::map<std::string, Placement> placements_;
    std::map<std::string, wire::PlaceRequest> requests_; // of jobs that are placed, or may be placed again
    std::set<std::string> asked_;                        // requests under way: "id/site/verb"
    std::map<std::string, Acted> acted_;                 // by "id/site/verb"
    std::set<std::string> warned_;                       // unknown marks seen at sites, said once
    std::set<std::string> silent_;                       // sites that did not answer
    std::string journal_trouble_;                        // why it cannot be written; empty: it can
    std::set<std::string> unsaved_;                      // jobs, until it can
    Metrics counted_;                                    // what is counted since the start
    Seconds follow_due_ = 0, sweep_due_ = 0, mend_due_ = 0;
    Seconds busy_until_ = 0; // sweeps are frequent until then
};

} // namespace spider::broker
